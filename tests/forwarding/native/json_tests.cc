// What an agent answers to a status query, as the client's NVML reads it.
#include <string>
#include <vector>

#include "../../../remoting/native/client/nvml/status_json.h"
#include "cases.h"

namespace {

std::vector<nvml::Slice> read(std::string_view text) {
    std::vector<nvml::Slice> slices;
    EXPECT(nvml::parse_slices(text, slices));
    return slices;
}

bool is_refused(std::string_view text) {
    std::vector<nvml::Slice> slices;
    return !nvml::parse_slices(text, slices);
}

}  // namespace

CASE(an_agents_answer_is_read_as_slices) {
    const auto slices = read(R"([{"name":"V100 \u00e9","uuid":"GPU-1","total_mib":327,"used_mib":12.9,)"
                             R"("utilisation":40,"cuda_version":13000},{"name":"T4"}])");
    EXPECT(slices.size() == 2);
    EXPECT(slices[0].name == "V100 \xc3\xa9" && slices[0].uuid == "GPU-1");
    EXPECT(slices[0].total_mib == 327 && slices[0].used_mib == 12);
    EXPECT(slices[0].utilisation == 40 && slices[0].cuda_version == 13000);
    EXPECT(slices[1].name == "T4" && slices[1].total_mib == 0);
    EXPECT(read(" [] ").empty());
}

CASE(fields_that_are_not_known_or_of_another_type_are_passed_over) {
    const auto slices = read(R"([{"later":{"a":[1,{"b":null}]},"name":7,"uuid":null,"total_mib":"5"}])");
    EXPECT(slices.size() == 1 && slices[0].name.empty() && slices[0].total_mib == 0);
}

CASE(an_agents_numbers_are_bounded) {
    const auto slices = read(R"([{"total_mib":-3,"used_mib":1e300,"utilisation":101}])");
    EXPECT(slices[0].total_mib == 0 && slices[0].used_mib == 1000000000);
    EXPECT(slices[0].utilisation == 100);
}

CASE(what_is_no_list_of_slices_is_refused) {
    for (const char* text : {"", "{}", "[1]", "[{]", "[{}", "[{}] x", "[{\"name\": \"A}]", "[{\"a\": NaN}]",
                             R"([{"name": "\ud83d"}])"})
        EXPECT(is_refused(text));
}

CASE(a_text_that_is_nested_without_end_is_refused) {
    EXPECT(is_refused(std::string(1 << 20, '[')));
}
