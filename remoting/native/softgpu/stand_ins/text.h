/* A growing text. Running out of memory is remembered and told once, by text_failed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct text {
    char* bytes; /* ended by NUL, null while empty */
    size_t length;
    size_t room;
    bool failed;
};

void text_append(struct text* text, const char* bytes, size_t length);
void text_add(struct text* text, const char* string);
void text_free(struct text* text);
const char* text_string(const struct text* text); /* never null */
