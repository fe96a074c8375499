#include "nvidia_cusparse.h"

#include <string>
#include <vector>

#include "cusparse_messages.h"
#include "libraries/cusparse/status.h"
#include "nvidia_function.h"

namespace worker {
namespace {

using namespace maths::cusparse;

void* at(uint64_t address) {
    return reinterpret_cast<void*>(address);
}

// What the generated calls ask for (cusparse_nvidia.inc). The first error of all that is done for a call
// stays.
class Calling {
  public:
    static constexpr bool wide = false;

    explicit Calling(const CusparseCall& call) : handle(call.handle), call_(call) {
        set("cusparseSetStream", handle, static_cast<void*>(call.stream));
        use_scalars(call.scalars_on_device);
    }
    ~Calling() {
        if (object_) plain<int(void*)>(object_ends_, object_);
        for (const Made& each : made_) plain<int(void*)>(each.ends, each.descriptor);
        for (const uint64_t room : rooms_) call_.give_back(room);
    }
    Calling(const Calling&) = delete;
    Calling& operator=(const Calling&) = delete;

    void* const handle;

    bool scalars_on_device() const { return call_.scalars_on_device; }
    bool accessible(uint64_t address, uint64_t bytes) const { return call_.accessible(address, bytes); }
    void use_scalars(bool on_device) { set("cusparseSetPointerMode", handle, static_cast<int>(on_device)); }
    const void* scalar(const maths::Scalar& scalar) const {
        uint64_t address;
        __builtin_memcpy(&address, scalar.bytes, sizeof address);
        return call_.scalars_on_device ? at(address) : scalar.bytes;
    }

    void* descriptor(const Sparse& m) {
        return once(m, "cusparseDestroySpMat", [&](void** to) {
            create(m, to);
            set_batch(m, *to);
        });
    }
    // Which triangle of it is meant, and what is on its diagonal: only solutions ask.
    void* triangle(const Sparse& m) {
        void* const made = descriptor(m);
        set("cusparseSpMatSetAttribute", made, 0, static_cast<const void*>(&m.fill), sizeof m.fill);
        set("cusparseSpMatSetAttribute", made, 1, static_cast<const void*>(&m.diag), sizeof m.diag);
        return made;
    }
    void* descriptor(const Dense& m) {
        return once(m, "cusparseDestroyDnMat", [&](void** to) {
            set("cusparseCreateDnMat", to, m.rows, m.columns, m.lead, at(m.values), m.type, m.order);
            if (m.batch > 1) set("cusparseDnMatSetStridedBatch", *to, static_cast<int>(m.batch), m.stride);
        });
    }
    void* descriptor(const Vector& v) {
        return once(v, "cusparseDestroyDnVec",
                    [&](void** to) { set("cusparseCreateDnVec", to, v.size, at(v.values), v.type); });
    }
    void* descriptor(const Entries& v) {
        return once(v, "cusparseDestroySpVec", [&](void** to) {
            set("cusparseCreateSpVec", to, v.size, v.count, at(v.indices), at(v.values), v.index_type, v.base,
                v.type);
        });
    }
    void* descriptor(const MatDescr& m) {
        return once(m, "cusparseDestroyMatDescr", [&](void** to) {
            set("cusparseCreateMatDescr", to);
            set("cusparseSetMatType", *to, m.type);
            set("cusparseSetMatFillMode", *to, m.fill);
            set("cusparseSetMatDiagType", *to, m.diag);
            set("cusparseSetMatIndexBase", *to, m.base);
        });
    }
    // What the older functions are told of a matrix.
    void* described(const Sparse& m) {
        return once(m, "cusparseDestroyMatDescr", [&](void** to) {
            set("cusparseCreateMatDescr", to);
            set("cusparseSetMatFillMode", *to, m.fill);
            set("cusparseSetMatDiagType", *to, m.diag);
            set("cusparseSetMatIndexBase", *to, m.base);
        });
    }
    // What is kept between the steps of a computation; a call has one.
    void* object(const std::string& make, const std::string& ends) {
        if (!object_) object_ends_ = ends, set(make.c_str(), &object_);
        return object_;
    }
    void* steps(const std::string& kind) {
        return object("cusparse" + kind + "_createDescr", "cusparse" + kind + "_destroyDescr");
    }
    // Whether the library has found a zero, and where: its word for that is no error.
    bool found_zero(void* info, int* position) {
        if (status_ != ::cusparse::kSuccess) return false;
        const int status =
            plain<int(void*, void*, int*)>("cusparseXbsrsv2_zeroPivot", handle, info, position);
        if (status != ::cusparse::kSuccess && status != ::cusparse::kZeroPivot) status_ = status;
        return status == ::cusparse::kZeroPivot;
    }

    template <typename Signature, typename... Arguments>
    int invoke(const char* name, Arguments... arguments) const {
        return status_ == ::cusparse::kSuccess ? plain<Signature>(name, arguments...) : status_;
    }
    // One of several steps: after an error none is made.
    template <typename... Arguments>
    void set(const std::string& name, Arguments... arguments) {
        if (status_ == ::cusparse::kSuccess) status_ = plain<int(Arguments...)>(name, arguments...);
    }
    int status() const { return status_; }

    size_t* asked_bytes() { return &bytes_; }
    int* asked_int() { return &int_bytes_; }
    int make_room(uint32_t = 0) {
        if (int_bytes_ > 0) bytes_ = static_cast<size_t>(int_bytes_);
        if (bytes_ == 0 || status_ != ::cusparse::kSuccess) return status_;
        if (call_.make_room(bytes_, room_) != CUDA_SUCCESS) status_ = ::cusparse::kAllocFailed;
        return status_;
    }
    void* room() const { return at(room_); }
    // Where a step's room is to stay while the next one works.
    void* lasting_room() {
        uint64_t room = 0;
        if (bytes_ == 0 || status_ != ::cusparse::kSuccess) return nullptr;
        if (call_.allocate(bytes_, room) != CUDA_SUCCESS) return status_ = ::cusparse::kAllocFailed, nullptr;
        rooms_.push_back(room);
        return at(room);
    }
    // A result, of 32 or of 64 bits.
    template <typename Integer>
    int write(uint64_t address, Integer value) {
        if (status_ != ::cusparse::kSuccess) return status_;
        const CUresult result = call_.write(address, static_cast<uint64_t>(value), sizeof value);
        return result == CUDA_SUCCESS ? ::cusparse::kSuccess : ::cusparse::kExecutionFailed;
    }

  private:
    struct Made {
        const void* of;
        std::string ends;
        void* descriptor;
    };

    template <typename Signature, typename... Arguments>
    int plain(const std::string& name, Arguments... arguments) const {
        const auto function = reinterpret_cast<Signature*>(function_of(call_.library, name));
        return function ? function(arguments...) : static_cast<int>(::cusparse::kNotSupported);
    }
    // A call names its operands more than once.
    template <typename Of, typename Make>
    void* once(const Of& of, const std::string& ends, Make make) {
        for (const Made& each : made_) {
            if (each.of == &of) return each.descriptor;
        }
        void* made = nullptr;
        make(&made);
        if (made) made_.push_back({&of, ends, made});
        return made;
    }
    void create(const Sparse& m, void** to) {
        void *const offsets = at(m.offsets), *const indices = at(m.indices), *const values = at(m.values);
        if (m.format == kCoo) {
            set("cusparseCreateCoo", to, m.rows, m.columns, m.entries, offsets, indices, values, m.index_type,
                m.base, m.type);
        } else if (m.format == kBsr) {
            set("cusparseCreateBsr", to, m.rows, m.columns, m.entries, m.block_rows, m.block_columns, offsets,
                indices, values, m.offset_type, m.index_type, m.base, m.type, m.block_order);
        } else {
            set(m.format == kCsr ? "cusparseCreateCsr" : "cusparseCreateCsc", to, m.rows, m.columns,
                m.entries, offsets, indices, values, m.offset_type, m.index_type, m.base, m.type);
        }
    }
    void set_batch(const Sparse& m, void* made) {
        const auto count = static_cast<int>(m.batch);
        if (m.batch == 1) return;
        if (m.format == kCsr) {
            set("cusparseCsrSetStridedBatch", made, count, m.offset_stride, m.index_stride);
        } else if (m.format == kCoo) {
            set("cusparseCooSetStridedBatch", made, count, m.index_stride);
        } else {
            set("cusparseBsrSetStridedBatch", made, count, m.offset_stride, m.index_stride, m.value_stride);
        }
    }

    const CusparseCall& call_;
    int status_ = ::cusparse::kSuccess;
    std::vector<Made> made_;
    std::vector<uint64_t> rooms_;
    std::string object_ends_;
    void* object_ = nullptr;
    size_t bytes_ = 0;
    int int_bytes_ = 0;
    uint64_t room_ = 0;
};

constexpr int kNoPolicy = 0;

// What was given as an int.
int as_int(int64_t value) {
    return static_cast<int>(value);
}
maths::Scalar one_of(int64_t type) {
    maths::Scalar one{};
    const double real = 1;
    const float single = 1;
    if (maths::real_of(maths::as_type(type)) == maths::kF64) {
        __builtin_memcpy(one.bytes, &real, sizeof real);
    } else {
        __builtin_memcpy(one.bytes, &single, sizeof single);
    }
    return one;
}

int invoke(const spsv& m, Calling& call) {
    void *const steps = call.steps("SpSV"), *const a = call.triangle(m.A);
    void *const x = call.descriptor(m.x), *const y = call.descriptor(m.y);
    const auto step = [&](const char* name, auto... last) {
        call.set(name, call.handle, static_cast<int>(m.op), call.scalar(m.alpha), a, x, y,
                 static_cast<int>(m.compute), static_cast<int>(m.alg), steps, last...);
    };
    step("cusparseSpSV_bufferSize", call.asked_bytes());
    call.make_room();
    step("cusparseSpSV_analysis", call.room());
    step("cusparseSpSV_solve");
    return call.status();
}

int invoke(const spsm& m, Calling& call) {
    void *const steps = call.steps("SpSM"), *const a = call.triangle(m.A);
    void *const b = call.descriptor(m.B), *const c = call.descriptor(m.C);
    const auto step = [&](const char* name, auto... last) {
        call.set(name, call.handle, static_cast<int>(m.opA), static_cast<int>(m.opB), call.scalar(m.alpha), a,
                 b, c, static_cast<int>(m.compute), static_cast<int>(m.alg), steps, last...);
    };
    step("cusparseSpSM_bufferSize", call.asked_bytes());
    call.make_room();
    step("cusparseSpSM_analysis", call.room());
    step("cusparseSpSM_solve");
    return call.status();
}

// The steps until the entries are known. `c` has offsets, and no entries.
template <typename Message>
void find_entries(const Message& m, void* c, const void* alpha, const void* beta, Calling& call) {
    void *const steps = call.steps("SpGEMM"), *const a = call.descriptor(m.A),
                *const b = call.descriptor(m.B);
    for (const char* name : {"cusparseSpGEMM_workEstimation", "cusparseSpGEMM_compute"}) {
        const auto step = [&](void* room) {
            call.set(name, call.handle, static_cast<int>(m.opA), static_cast<int>(m.opB), alpha, a, b, beta,
                     c, static_cast<int>(m.compute), static_cast<int>(m.alg), steps, call.asked_bytes(),
                     room);
        };
        step(nullptr);
        step(call.lasting_room());
    }
}

// They may be others by now than those that were counted, and more than there is memory for.
int refuse_entries(const char* name, int64_t found, int64_t known) {
    return refused(::cusparse::kInvalidValue, std::string(name) + " has got " + std::to_string(found) +
                                                  " entries, and was said to have " + std::to_string(known) +
                                                  ": let nothing write its operands between the two steps");
}

Sparse without_entries(const Sparse& c) {
    Sparse empty = c;
    empty.entries = 0, empty.indices = empty.values = 0;
    return empty;
}

int64_t entries_of(void* c, Calling& call) {
    int64_t rows = 0, columns = 0, entries = 0;
    call.set("cusparseSpMatGetSize", c, &rows, &columns, &entries);
    return entries;
}

int invoke(const spgemm_count& m, Calling& call) {
    const Sparse empty = without_entries(m.C);
    const maths::Scalar one = one_of(m.compute), zero{};
    call.use_scalars(false);
    void* const c = call.descriptor(empty);
    find_entries(m, c, one.bytes, zero.bytes, call);
    return call.write(m.count, entries_of(c, call));
}

int invoke(const spgemm& m, Calling& call) {
    // Whether beta is 0 nobody has looked; with another C has a pattern of its own.
    if (call.scalars_on_device()) {
        return refused(::cusparse::kNotSupported,
                       "alpha and beta lie on the device: give them on the host (cusparseSetPointerMode)");
    }
    const Sparse empty = without_entries(m.C);
    void* const c = call.descriptor(empty);
    find_entries(m, c, call.scalar(m.alpha), call.scalar(m.beta), call);
    if (const int64_t found = entries_of(c, call); found > m.C.entries)
        return refuse_entries("C", found, m.C.entries);
    call.set("cusparseCsrSetPointers", c, at(m.C.offsets), at(m.C.indices), at(m.C.values));
    call.set("cusparseSpGEMM_copy", call.handle, static_cast<int>(m.opA), static_cast<int>(m.opB),
             call.scalar(m.alpha), call.descriptor(m.A), call.descriptor(m.B), call.scalar(m.beta), c,
             static_cast<int>(m.compute), static_cast<int>(m.alg), call.steps("SpGEMM"));
    return call.status();
}

template <typename Message>
void find_numbers(const Message& m, void* b, Calling& call) {
    void* const a = call.descriptor(m.A);
    call.set("cusparseDenseToSparse_bufferSize", call.handle, a, b, static_cast<int>(m.alg),
             call.asked_bytes());
    call.make_room();
    call.set("cusparseDenseToSparse_analysis", call.handle, a, b, static_cast<int>(m.alg), call.room());
}

int invoke(const to_sparse_count& m, Calling& call) {
    const Sparse empty = without_entries(m.B);
    void* const b = call.descriptor(empty);
    find_numbers(m, b, call);
    return call.write(m.count, entries_of(b, call));
}

int invoke(const to_sparse& m, Calling& call) {
    const Sparse empty = without_entries(m.B);
    void* const b = call.descriptor(empty);
    find_numbers(m, b, call);
    if (const int64_t found = entries_of(b, call); found > m.B.entries)
        return refuse_entries("B", found, m.B.entries);
    const char* const kind = m.B.format == kCsr ? "Csr" : m.B.format == kCsc ? "Csc" : "Coo";
    call.set(("cusparse" + std::string(kind) + "SetPointers").c_str(), b, at(m.B.offsets), at(m.B.indices),
             at(m.B.values));
    call.set("cusparseDenseToSparse_convert", call.handle, call.descriptor(m.A), b, static_cast<int>(m.alg),
             call.room());
    return call.status();
}

char letter_of(int64_t type) {
    return type == maths::kF32 ? 'S' : type == maths::kF64 ? 'D' : type == maths::kC32 ? 'C' : 'Z';
}
std::string older(int64_t type, const char* name) {
    return std::string("cusparse") + letter_of(type) + name;
}
int direction_of(const Sparse& m) {
    return m.block_order == kByRows ? kBlocksByRows : kBlocksByColumns;
}

// What an older function can be told of a matrix: a message that says another is no library's of ours.
bool is_older(const Sparse& m, int64_t compute) {
    const bool are_ints = maths::is_int(m.rows) && maths::is_int(m.columns) && maths::is_int(m.entries);
    return are_ints && m.batch == 1 && m.offset_type == kIndex32 && m.index_type == kIndex32 &&
           m.type == compute && is_blas(compute);
}
bool is_of_blocks(const Sparse& m, int64_t compute) {
    return is_older(m, compute) && m.format == kBsr && m.block_rows == m.block_columns &&
           maths::is_int(m.block_rows);
}
bool is_plain(const Dense& m) {
    return m.batch == 1 && maths::is_int(m.lead) && maths::is_int(m.columns);
}

int invoke_bsrmv(const spmv& m, Calling& call) {
    if (!is_of_blocks(m.A, m.compute)) return ::cusparse::kInvalidValue;
    call.set(older(m.compute, "bsrmv"), call.handle, direction_of(m.A), static_cast<int>(m.op),
             as_int(m.A.rows), as_int(m.A.columns), as_int(m.A.entries), call.scalar(m.alpha),
             call.described(m.A), at(m.A.values), at(m.A.offsets), at(m.A.indices), as_int(m.A.block_rows),
             at(m.x.values), call.scalar(m.beta), at(m.y.values));
    return call.status();
}

int invoke_bsrmm(const spmm& m, Calling& call) {
    const bool are_plain =
        is_plain(m.B) && is_plain(m.C) && m.B.order == kByColumns && m.C.order == kByColumns;
    if (!is_of_blocks(m.A, m.compute) || !are_plain) return ::cusparse::kInvalidValue;
    call.set(older(m.compute, "bsrmm"), call.handle, direction_of(m.A), static_cast<int>(m.opA),
             static_cast<int>(m.opB), as_int(m.A.rows), as_int(m.C.columns), as_int(m.A.columns),
             as_int(m.A.entries), call.scalar(m.alpha), call.described(m.A), at(m.A.values), at(m.A.offsets),
             at(m.A.indices), as_int(m.A.block_rows), at(m.B.values), as_int(m.B.lead), call.scalar(m.beta),
             at(m.C.values), as_int(m.C.lead));
    return call.status();
}

// The steps before a solution.
void analyse_blocks(const Sparse& a, int64_t op, void* info, Calling& call) {
    const auto step = [&](const char* name, auto... last) {
        call.set(older(a.type, name), call.handle, direction_of(a), static_cast<int>(op), as_int(a.rows),
                 as_int(a.entries), call.described(a), at(a.values), at(a.offsets), at(a.indices),
                 as_int(a.block_rows), info, last...);
    };
    step("bsrsv2_bufferSize", call.asked_int());
    call.make_room();
    step("bsrsv2_analysis", kNoPolicy, call.room());
}

void solve_blocks(const Sparse& a, int64_t op, const void* alpha, void* f, void* x, void* info,
                  Calling& call) {
    call.set(older(a.type, "bsrsv2_solve"), call.handle, direction_of(a), static_cast<int>(op),
             as_int(a.rows), as_int(a.entries), alpha, call.described(a), at(a.values), at(a.offsets),
             at(a.indices), as_int(a.block_rows), info, f, x, kNoPolicy, call.room());
}

int invoke_bsrsv2(const spsv& m, Calling& call) {
    if (!is_of_blocks(m.A, m.compute)) return ::cusparse::kInvalidValue;
    void* const info = call.object("cusparseCreateBsrsv2Info", "cusparseDestroyBsrsv2Info");
    analyse_blocks(m.A, m.op, info, call);
    solve_blocks(m.A, m.op, call.scalar(m.alpha), at(m.x.values), at(m.y.values), info, call);
    return call.status();
}

int invoke_bsrsm2(const spsm& m, Calling& call) {
    const Sparse& a = m.A;
    const bool are_plain = is_plain(m.B) && is_plain(m.C) && m.B.order == m.C.order && m.opB == 0;
    if (!is_of_blocks(a, m.compute) || !are_plain) return ::cusparse::kInvalidValue;
    void* const info = call.object("cusparseCreateBsrsm2Info", "cusparseDestroyBsrsm2Info");
    const int both = m.C.order == kByRows;
    const auto step = [&](const char* name, auto... last) {
        call.set(older(a.type, name), call.handle, direction_of(a), static_cast<int>(m.opA), both,
                 as_int(a.rows), as_int(m.C.columns), as_int(a.entries), last...);
    };
    const auto matrix = [&](auto then) {
        then(call.described(a), at(a.values), at(a.offsets), at(a.indices), as_int(a.block_rows), info);
    };
    matrix([&](auto... of) { step("bsrsm2_bufferSize", of..., call.asked_int()); });
    call.make_room();
    matrix([&](auto... of) { step("bsrsm2_analysis", of..., kNoPolicy, call.room()); });
    matrix([&](auto... of) {
        step("bsrsm2_solve", call.scalar(m.alpha), of..., at(m.B.values), as_int(m.B.lead), at(m.C.values),
             as_int(m.C.lead), kNoPolicy, call.room());
    });
    return call.status();
}

// Zeros among the numbers are found by a solution: of anything, to a place of its own.
int invoke(const zero_pivot& m, Calling& call) {
    if (!is_of_blocks(m.A, m.A.type)) return ::cusparse::kInvalidValue;
    void* const info = call.object("cusparseCreateBsrsv2Info", "cusparseDestroyBsrsv2Info");
    call.use_scalars(false);
    analyse_blocks(m.A, 0, info, call);
    int position = -1;
    const maths::Scalar one = one_of(m.A.type);
    if (call.found_zero(info, &position)) return call.write(m.position, position);
    *call.asked_bytes() = height(m.A) * maths::bytes_of(maths::as_type(m.A.type));
    void *const f = call.lasting_room(), *const x = call.lasting_room();
    solve_blocks(m.A, 0, one.bytes, f, x, info, call);
    if (!call.found_zero(info, &position)) position = -1;
    return call.write(m.position, position);
}

// How many entries a sum has; the library writes its offsets.
template <typename Message>
int count_entries(const Message& m, Calling& call) {
    const maths::Scalar none{};
    const void* const zero = none.bytes;
    int count = 0;
    call.use_scalars(false);
    call.set("cusparseScsrgeam2_bufferSizeExt", call.handle, as_int(m.A.rows), as_int(m.A.columns), zero,
             call.described(m.A), as_int(m.A.entries), at(0), at(m.A.offsets), at(m.A.indices), zero,
             call.described(m.B), as_int(m.B.entries), at(0), at(m.B.offsets), at(m.B.indices),
             call.described(m.C), at(0), at(m.C.offsets), at(0), call.asked_bytes());
    call.make_room();
    call.set("cusparseXcsrgeam2Nnz", call.handle, as_int(m.A.rows), as_int(m.A.columns), call.described(m.A),
             as_int(m.A.entries), at(m.A.offsets), at(m.A.indices), call.described(m.B), as_int(m.B.entries),
             at(m.B.offsets), at(m.B.indices), call.described(m.C), at(m.C.offsets), &count, call.room());
    return count;
}

int invoke(const geam_count& m, Calling& call) {
    if (!is_older(m.A, m.A.type) || !is_older(m.B, m.A.type) || !is_older(m.C, m.A.type))
        return ::cusparse::kInvalidValue;
    return call.write(m.count, count_entries(m, call));
}

// A program says for no more than the offsets that it has memory: how many entries there are to be is counted
// again.
int invoke(const geam& m, Calling& call) {
    if (!is_older(m.A, m.compute) || !is_older(m.B, m.compute) || !is_older(m.C, m.compute)) {
        return ::cusparse::kInvalidValue;
    }
    const int count = count_entries(m, call);
    if (call.status() != ::cusparse::kSuccess) return call.status();
    const uint64_t bytes = maths::bytes_of(maths::as_type(m.compute));
    const bool is_there =
        count == 0 || (count > 0 && call.accessible(m.C.indices, maths::product(maths::length(count), 4)) &&
                       call.accessible(m.C.values, maths::product(maths::length(count), bytes)));
    if (!is_there) {
        return refused(::cusparse::kInvalidValue,
                       "C has " + std::to_string(count) +
                           " entries, and memory of the slice for fewer: give it as much as "
                           "cusparseXcsrgeam2Nnz says");
    }
    call.use_scalars(call.scalars_on_device());
    const auto step = [&](const char* name, auto last) {
        call.set(older(m.compute, name), call.handle, as_int(m.A.rows), as_int(m.A.columns),
                 call.scalar(m.alpha), call.described(m.A), as_int(m.A.entries), at(m.A.values),
                 at(m.A.offsets), at(m.A.indices), call.scalar(m.beta), call.described(m.B),
                 as_int(m.B.entries), at(m.B.values), at(m.B.offsets), at(m.B.indices), call.described(m.C),
                 at(m.C.values), at(m.C.offsets), at(m.C.indices), last);
    };
    step("csrgeam2_bufferSizeExt", call.asked_bytes());
    call.make_room();
    step("csrgeam2", call.room());
    return call.status();
}

template <typename Message>
int invoke_sort(const Message& m, const char* name, Calling& call) {
    call.set("cusparseXcoosort_bufferSizeExt", call.handle, as_int(m.m), as_int(m.n), as_int(m.nnz),
             at(m.rows), at(m.columns), call.asked_bytes());
    call.make_room();
    call.set(name, call.handle, as_int(m.m), as_int(m.n), as_int(m.nnz), at(m.rows), at(m.columns), at(m.P),
             call.room());
    return call.status();
}

}  // namespace
}  // namespace worker

namespace maths::cusparse {

static int invoke_function(uint16_t function, const void* arguments, worker::Calling& call) {
    switch (function) {
#include "cusparse_nvidia.inc"
        case k_cusparseSpSV_solve:
            return worker::invoke(*static_cast<const spsv*>(arguments), call);
        case k_cusparseSpSM_solve:
            return worker::invoke(*static_cast<const spsm*>(arguments), call);
        case k_cusparseSpGEMM_compute:
            return worker::invoke(*static_cast<const spgemm_count*>(arguments), call);
        case k_cusparseSpGEMM_copy:
            return worker::invoke(*static_cast<const spgemm*>(arguments), call);
        case k_cusparseDenseToSparse_analysis:
            return worker::invoke(*static_cast<const to_sparse_count*>(arguments), call);
        case k_cusparseDenseToSparse_convert:
            return worker::invoke(*static_cast<const to_sparse*>(arguments), call);
        case k_cusparseSbsrmv:
        case k_cusparseDbsrmv:
        case k_cusparseCbsrmv:
        case k_cusparseZbsrmv:
            return worker::invoke_bsrmv(*static_cast<const spmv*>(arguments), call);
        case k_cusparseSbsrmm:
        case k_cusparseDbsrmm:
        case k_cusparseCbsrmm:
        case k_cusparseZbsrmm:
            return worker::invoke_bsrmm(*static_cast<const spmm*>(arguments), call);
        case k_cusparseSbsrsv2_solve:
        case k_cusparseDbsrsv2_solve:
        case k_cusparseCbsrsv2_solve:
        case k_cusparseZbsrsv2_solve:
            return worker::invoke_bsrsv2(*static_cast<const spsv*>(arguments), call);
        case k_cusparseSbsrsm2_solve:
        case k_cusparseDbsrsm2_solve:
        case k_cusparseCbsrsm2_solve:
        case k_cusparseZbsrsm2_solve:
            return worker::invoke_bsrsm2(*static_cast<const spsm*>(arguments), call);
        case k_cusparseScsrgeam2:
        case k_cusparseDcsrgeam2:
        case k_cusparseCcsrgeam2:
        case k_cusparseZcsrgeam2:
            return worker::invoke(*static_cast<const geam*>(arguments), call);
        case k_cusparseXcsrgeam2Nnz:
            return worker::invoke(*static_cast<const geam_count*>(arguments), call);
        case k_cusparseXbsrsv2_zeroPivot:
        case k_cusparseXbsrsm2_zeroPivot:
            return worker::invoke(*static_cast<const zero_pivot*>(arguments), call);
        case k_cusparseXcoosortByRow:
            return worker::invoke_sort(*static_cast<const coosort_rows*>(arguments), "cusparseXcoosortByRow",
                                       call);
        case k_cusparseXcoosortByColumn:
            return worker::invoke_sort(*static_cast<const coosort_columns*>(arguments),
                                       "cusparseXcoosortByColumn", call);
        default:
            return ::cusparse::kNotSupported;
    }
}

}  // namespace maths::cusparse

namespace worker {

CUresult invoke_cusparse(uint16_t function, const void* arguments, const CusparseCall& call) {
    Calling calling(call);
    return ::cusparse::result_of(maths::cusparse::invoke_function(function, arguments, calling));
}

}  // namespace worker
