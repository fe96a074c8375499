#include "text.h"

#include <stdlib.h>
#include <string.h>

void text_append(struct text* text, const char* bytes, size_t length) {
    if (text->failed) return;
    if (length >= text->room - text->length) {
        const size_t room = (text->length + length + 1) * 2;
        char* larger = room > text->length ? realloc(text->bytes, room) : NULL;
        if (!larger) {
            text->failed = true;
            return;
        }
        text->bytes = larger;
        text->room = room;
    }
    memcpy(text->bytes + text->length, bytes, length);
    text->length += length;
    text->bytes[text->length] = '\0';
}

void text_add(struct text* text, const char* string) {
    text_append(text, string, strlen(string));
}

void text_free(struct text* text) {
    free(text->bytes);
    *text = (struct text){0};
}

const char* text_string(const struct text* text) {
    return text->bytes ? text->bytes : "";
}
