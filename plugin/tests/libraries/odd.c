/* Libraries that are at fault, or ask for less: which one, a macro says. */
#include "maniple_mapper.h"
#include <stdio.h>
#include <string.h>
#include <unwind.h>

static int anything;

static void *create(const char *options, char *message, size_t capacity) {
    (void)options, (void)message, (void)capacity;
#if defined(CREATE_REFUSES)
    snprintf(message, capacity, "expected nothing, found %s", options);
    return NULL;
#elif defined(CREATE_SAYS_NOTHING)
    return NULL;
#endif
    return &anything;
}

static const char *name(void *mapper) {
    (void)mapper;
#if defined(NAME_NULL)
    return NULL;
#elif defined(NAME_LONG)
    static char longest[300];
    memset(longest, 'x', sizeof longest);
    return longest;
#elif defined(NAME_IS_NO_TEXT)
    return "odd\xff";
#else
    return "odd";
#endif
}

static int32_t place_shards(void *mapper, const struct maniple_place_shards_input *input,
                            struct maniple_place_shards_output *output, char *message, size_t capacity) {
    (void)mapper, (void)input, (void)output, (void)message, (void)capacity;
#if defined(CALL_FAILS)
    snprintf(message, capacity, "no place for %u shards of %.*s", input->shards, (int)input->gang.length,
             input->gang.bytes);
    return MANIPLE_FAILED;
#elif defined(CALL_UNWINDS)
    static struct _Unwind_Exception exception;
    _Unwind_RaiseException(&exception);
#elif defined(CALL_RETURNS_RUBBISH)
    return 42;
#elif defined(CALL_WRITES_NO_NUL)
    memset(message, 'x', capacity);
    return MANIPLE_FAILED;
#elif defined(ANSWER_UNKNOWN)
    output->placement = 9;
#elif defined(ANSWER_ILLEGAL)
    output->placement = MANIPLE_EXPLICIT;
    for (uint32_t s = 0; s < input->shards; s++)
        output->processors[s] = 99;
#endif
    return MANIPLE_OK;
}

#if defined(ANSWER_PRIORITY)
static int32_t map_leaf(void *mapper, const struct maniple_map_leaf_input *input,
                        struct maniple_map_leaf_output *output, char *message, size_t capacity) {
    (void)mapper, (void)input, (void)message, (void)capacity;
    output->priority = ANSWER_PRIORITY;
    return MANIPLE_OK;
}

static int32_t map_collective(void *mapper, const struct maniple_map_collective_input *input,
                            struct maniple_map_collective_output *output, char *message, size_t capacity) {
    (void)mapper, (void)input, (void)message, (void)capacity;
    output->priority = ANSWER_PRIORITY;
    return MANIPLE_OK;
}
#endif

#if defined(NEEDS_MORE)
extern int maniple_needs(void);
__attribute__((constructor)) static void need(void) { anything = maniple_needs(); }
#endif

#if defined(VERSION)
#define THE_VERSION VERSION
#else
#define THE_VERSION MANIPLE_MAPPER_VERSION
#endif
#if defined(SIZE)
#define THE_SIZE SIZE
#else
#define THE_SIZE sizeof(struct maniple_library)
#endif
#if defined(MAGIC)
#define THE_MAGIC MAGIC
#else
#define THE_MAGIC MANIPLE_MAPPER_MAGIC
#endif

#if !defined(NO_ENTRY)
static const struct maniple_library library = {
    .magic = THE_MAGIC,
    .version = THE_VERSION,
    .size = THE_SIZE,
#if !defined(NO_CREATE)
    .create = create,
#endif
#if !defined(NO_NAME)
    .name = name,
#endif
    .place_shards = place_shards,
#if defined(ANSWER_PRIORITY)
    .map_leaf = map_leaf,
    .map_collective = map_collective,
#endif
};

const struct maniple_library *maniple_mapper_library(void) {
#if defined(ENTRY_NULL)
    return NULL;
#endif
    return &library;
}
#endif
