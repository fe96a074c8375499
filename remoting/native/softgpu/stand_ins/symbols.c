#include "symbols.h"

#include <ctype.h>
#include <string.h>

/* One directive at the top level of a PTX text that names a function or variable. */
struct symbol {
    const char* name;
    size_t length;
    bool external;
};

/* What the engine brings: device code calls it and nobody defines it. The last four are of the device
 * runtime. */
static const char* const kBrought[] = {
    "vprintf",       "malloc",       "free", "__assertfail", "cudaCGSynchronize", "cudaCGGetIntrinsicHandle",
    "cudaCGGetSize", "cudaCGGetRank"};

static const char* skip_quoted(const char* at) {
    for (++at; *at && *at != '"'; ++at) {
        if (*at == '\\' && at[1]) ++at;
    }
    return *at ? at + 1 : at;
}

static const char* skip_blank(const char* at) {
    for (;;) {
        if (isspace((unsigned char)*at)) {
            ++at;
        } else if (at[0] == '/' && at[1] == '/') {
            at += strcspn(at, "\n");
        } else if (at[0] == '/' && at[1] == '*') {
            const char* end = strstr(at + 2, "*/");
            at = end ? end + 2 : at + strlen(at);
        } else {
            return at;
        }
    }
}

/* Past the bracket that closes the one at `at`; strings and comments inside do not count. */
static const char* skip_group(const char* at, char open, char close) {
    size_t depth = 0;
    while (*(at = skip_blank(at))) {
        if (*at == '"') {
            at = skip_quoted(at);
            continue;
        }
        if (*at == open) ++depth;
        if (*at == close && --depth == 0) return at + 1;
        ++at;
    }
    return at;
}

static size_t word_length(const char* at) {
    size_t length = *at == '.';
    while (isalnum((unsigned char)at[length]) || at[length] == '_' || at[length] == '$') ++length;
    return length;
}

static bool is_word(const char* at, size_t length, const char* word) {
    return strlen(word) == length && memcmp(at, word, length) == 0;
}

/* Reads one top-level directive and says where the next begins. `symbol->name` is null when it names nothing
 * that can be linked. */
static const char* read_directive(const char* at, struct symbol* symbol) {
    bool linkable = false, function = false, has_body = false;
    *symbol = (struct symbol){0};
    while (*(at = skip_blank(at))) {
        const size_t length = word_length(at);
        if (length > 1 && *at == '.') {
            if (is_word(at, length, ".extern")) symbol->external = true;
            if (is_word(at, length, ".func")) linkable = function = true;
            if (is_word(at, length, ".global") || is_word(at, length, ".const")) linkable = true;
            /* Directives that end with their line: their words are no symbols. */
            if (is_word(at, length, ".version") || is_word(at, length, ".target") ||
                is_word(at, length, ".address_size") || is_word(at, length, ".file")) {
                return at + strcspn(at, "\n");
            }
            at += length;
        } else if (length > 0) {
            if (!symbol->name && linkable && !isdigit((unsigned char)*at)) {
                symbol->name = at;
                symbol->length = length;
            }
            at += length;
        } else if (*at == '(') {
            at = skip_group(at, '(', ')');
        } else if (*at == '{') {
            at = skip_group(at, '{', '}');
            has_body = true;
            if (function || !linkable) break;
        } else if (*at == '"') {
            at = skip_quoted(at);
        } else if (*at++ == ';') {
            break;
        }
    }
    /* A function without a body is a declaration, with .extern or without. */
    if (function && !has_body) symbol->external = true;
    return at;
}

static bool defines(const char* container, const struct symbol* wanted) {
    struct symbol symbol;
    for (const char* at = container; *at;) {
        at = read_directive(at, &symbol);
        if (symbol.name && !symbol.external && symbol.length == wanted->length &&
            memcmp(symbol.name, wanted->name, wanted->length) == 0) {
            return true;
        }
    }
    return false;
}

static bool brought(const struct symbol* symbol) {
    for (size_t i = 0; i < sizeof kBrought / sizeof *kBrought; ++i) {
        if (is_word(symbol->name, symbol->length, kBrought[i])) return true;
    }
    return false;
}

void find_undefined(const char* container, struct text* errors) {
    struct symbol symbol;
    for (const char* at = container; *at;) {
        at = read_directive(at, &symbol);
        if (!symbol.name || !symbol.external || brought(&symbol) || defines(container, &symbol)) continue;
        text_add(errors, "undefined symbol: ");
        text_append(errors, symbol.name, symbol.length);
        text_add(errors, "\n");
    }
}
