/*
 * A mapper as a shared library, in C. Shards are dealt out like cards, leaf tasks go to the processors of their node in
 * turn, and collectives go first. Option: `priority=N`, the priority of leaf tasks.
 *
 * To start your own: copy this file and maniple_mapper.h, whose documentation says what each call decides.
 *
 *     cc -std=c11 -O2 -shared -fPIC -I plugin/include -o target/libdealer.so examples/plugin-c/mapper.c
 *     cargo run --release --bin maniple -- stencil --mapper target/libdealer.so,priority=5
 */
#include "maniple_mapper.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

struct dealer {
    uint32_t priority;
    atomic_uint turn; /* calls come from several threads */
};

static void *create(const char *options, char *message, size_t capacity) {
    uint32_t priority = MANIPLE_NORMAL;
    int end = 0;
    if (*options != '\0' && (sscanf(options, "priority=%" SCNu32 "%n", &priority, &end) != 1 || options[end] != '\0' ||
                             priority >= MANIPLE_PRIORITIES)) {
        snprintf(message, capacity, "expected priority=N, N below %u, found `%s`", MANIPLE_PRIORITIES, options);
        return NULL;
    }
    struct dealer *dealer = malloc(sizeof *dealer);
    if (dealer == NULL) {
        snprintf(message, capacity, "out of memory");
        return NULL;
    }
    dealer->priority = priority;
    atomic_init(&dealer->turn, 0);
    return dealer;
}

static void destroy(void *mapper) { free(mapper); }

static const char *name(void *mapper) {
    (void)mapper;
    return "dealer";
}

static int32_t place_shards(void *mapper, const struct maniple_place_shards_input *input,
                            struct maniple_place_shards_output *output, char *message, size_t capacity) {
    (void)mapper, (void)input, (void)message, (void)capacity;
    output->placement = MANIPLE_CYCLIC;
    return MANIPLE_OK;
}

static int32_t map_leaf(void *mapper, const struct maniple_map_leaf_input *input,
                        struct maniple_map_leaf_output *output, char *message, size_t capacity) {
    (void)message, (void)capacity;
    struct dealer *dealer = mapper;
    const struct maniple_machine *machine = input->machine;
    uint32_t first = input->processor / machine->per_node * machine->per_node;
    uint32_t after = first + machine->per_node < machine->processors ? first + machine->per_node : machine->processors;
    uint32_t n = after - first > machine->utility ? after - first - machine->utility : 1;
    output->processor = first + atomic_fetch_add(&dealer->turn, 1) % n;
    output->priority = dealer->priority;
    return MANIPLE_OK;
}

static int32_t map_collective(void *mapper, const struct maniple_map_collective_input *input,
                            struct maniple_map_collective_output *output, char *message, size_t capacity) {
    (void)mapper, (void)input, (void)message, (void)capacity;
    output->priority = MANIPLE_RAISED;
    return MANIPLE_OK;
}

/* The stock mapper `collective` answers the calls that are left out. */
static const struct maniple_library library = {
    .magic = MANIPLE_MAPPER_MAGIC,
    .version = MANIPLE_MAPPER_VERSION,
    .size = sizeof(struct maniple_library),
    .create = create,
    .destroy = destroy,
    .name = name,
    .place_shards = place_shards,
    .map_leaf = map_leaf,
    .map_collective = map_collective,
};

const struct maniple_library *maniple_mapper_library(void) { return &library; }
