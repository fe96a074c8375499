// libFuzzer: any bytes as what a client sends on a lane. The driver is the recording one; neither a crash nor
// a hang may come of it, whatever the frames say.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "lane.h"
#include "options.h"

namespace {

// Takes whatever is sent, and says that the peer has gone when it is asked: a frame whose turn never comes is
// given up at once.
class Nobody final : public wire::Transport {
  public:
    bool send(iovec*, int) override { return true; }
    size_t receive(iovec*, int, size_t) override { return 0; }
    bool hung_up() override { return true; }
    void shut() override {}
};

worker::Worker& the_worker() {
    static auto* worker = [] {
        auto* made = new worker::Worker(-1, {16 << 20});
        worker::Options options;
        options.slices.push_back({16, 100, "GPU-fuzz"});
        options.name = "Fuzzed GPU";
        std::string error;
        const char* driver = std::getenv("FUZZ_DRIVER");
        if (!driver || !made->driver.open(driver, error) ||
            !open_devices(made->driver, options, made->devices, error)) {
            std::fprintf(stderr, "FUZZ_DRIVER must name the recording driver: %s\n", error.c_str());
            std::exit(2);
        }
        return made;
    }();
    return *worker;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    worker::Worker& worker = the_worker();
    auto session = worker.enter("fuzzed session..");
    auto transport = std::make_unique<Nobody>();
    session->add_lane(0, transport.get());
    {
        worker::Lane lane(worker, *session, std::move(transport));
        size_t done = 0;
        lane.consume(std::as_bytes(std::span(data, size)), done);
    }
    session->remove_lane(0);
    worker.poisoned.store(CUDA_SUCCESS);
    worker.leave("fuzzed session..", session);
    return 0;
}
