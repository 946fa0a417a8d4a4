/*
 * The interface between maniple and a mapper that lives in a shared library, version 2. C99 and C++11.
 *
 * A library exports one function, `maniple_mapper_library`, which returns a table: how to make a mapper, how to drop it,
 * and one function for each decision that it takes over. A null pointer leaves a decision to the stock mapper
 * `collective`. What is decided, and what is legal, is in the documentation of the trait `Mapper` of the crate
 * maniple-mapper; the calls have its names. examples/plugin-c is a library to copy.
 *
 *     maniple stencil --mapper ./libmine.so,options
 *
 * Rules:
 *
 * 1. The library runs in the program and is trusted: if it crashes, exits or hangs, so does the program. It stays loaded
 *    until the process ends; a mapper is dropped by `destroy`, on any thread, when no call of it is under way.
 * 2. Calls come from any thread, several at a time. A call must return soon, since the processor that asks waits for it,
 *    and must not leave the library by a C++ exception, which ends the process, or by longjmp.
 * 3. Calls about gangs, shared regions, copy sources and collectives are made by all processes of a program alike and must
 *    be pure functions of their inputs and the options.
 * 4. A call returns MANIPLE_OK, or MANIPLE_FAILED after it has written what is wrong to `message`, a buffer of `capacity`
 *    bytes (at least 256), as NUL-terminated UTF-8: snprintf(message, capacity, ...) does. Whatever asked then fails with
 *    that message.
 * 5. Inputs and outputs, with all they point to, are valid during the call only, and on its thread. Outputs belong to
 *    the caller and hold that mapper's answer already.
 * 6. Every answer is checked; an illegal one fails whatever asked.
 * 7. Each structure that a call gets begins with its size in bytes as the caller knows it. Later versions of maniple may
 *    add fields at the end, and calls at the end of the table, without another version number; the library's `size` says
 *    which calls it knows of. Structures without a size, which lie in lists or in others, stay as they are.
 *
 * Texts of inputs are UTF-8 with a length and are not NUL-terminated; the options and the texts a library gives back are
 * NUL-terminated UTF-8.
 */
#ifndef MANIPLE_MAPPER_H
#define MANIPLE_MAPPER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MANIPLE_MAPPER_MAGIC 0x4d6e706cu /* "Mnpl" */
#define MANIPLE_MAPPER_VERSION 2u

/* What a call returns. */
#define MANIPLE_OK 0
#define MANIPLE_FAILED 1

/* Kinds of memory. Staged through a buffer on its way to other processors, or registered for remote access. */
#define MANIPLE_NO_MEMORY 0u
#define MANIPLE_ORDINARY 1u
#define MANIPLE_REGISTERED 2u

/* What a task may do to a region. */
#define MANIPLE_READ 0u
#define MANIPLE_READ_WRITE 1u
#define MANIPLE_WRITE_DISCARD 2u
#define MANIPLE_REDUCE 3u

/* Who else may use it at the same time. */
#define MANIPLE_EXCLUSIVE 0u
#define MANIPLE_ATOMIC 1u
#define MANIPLE_SIMULTANEOUS 2u

/* How a task reaches a region: where it is, or by a copy near the task. */
#define MANIPLE_IN_PLACE 0u
#define MANIPLE_COPY 1u

/* Ranks of ready tasks: 0 to MANIPLE_PRIORITIES - 1, higher ones first. */
#define MANIPLE_PRIORITIES 8u
#define MANIPLE_NORMAL 3u
#define MANIPLE_RAISED 6u

/* A text of an input: `length` bytes of UTF-8, not NUL-terminated. printf("%.*s", (int)t.length, t.bytes) */
struct maniple_text {
    const char *bytes;
    size_t length;
};

/* The processors of a run, 0 to processors - 1. k * per_node to (k + 1) * per_node - 1 share address space k, and form a
 * node. The last `utility` of each node, but never all of them, run no leaf tasks. */
struct maniple_machine {
    uint32_t size;
    uint32_t processors;
    uint32_t per_node;
    uint32_t utility;
};

/* The points p of a region tree with lo[d] <= p[d] < hi[d] in each of its 1 to 3 dimensions. */
struct maniple_region {
    uint32_t tree;
    uint32_t dimensions;
    int64_t lo[3];
    int64_t hi[3];
};

/* ---- place_shards: which processor runs each shard of a gang. Once a gang. ---- */

#define MANIPLE_BLOCKED 0u  /* shard s of P on processor s * W / P */
#define MANIPLE_CYCLIC 1u   /* shard s on processor s mod W */
#define MANIPLE_EXPLICIT 2u /* shard s on processor processors[s] */

struct maniple_place_shards_input {
    uint32_t size;
    uint32_t shards;
    struct maniple_text gang;
    const struct maniple_machine *machine;
};

struct maniple_place_shards_output {
    uint32_t size;
    uint32_t placement;
    uint32_t *processors; /* room for one number a shard; used with MANIPLE_EXPLICIT */
};

/* ---- place_shared: which processor has the one instance of a region that shards share. Once a region and launch. ---- */

struct maniple_namer {
    uint32_t processor;
    uint32_t privilege;
};

struct maniple_place_shared_input {
    uint32_t size;
    uint32_t field;
    struct maniple_region region;
    const struct maniple_namer *namers; /* the shards that name the region, in their order */
    size_t namers_length;
    const struct maniple_machine *machine;
};

struct maniple_place_shared_output {
    uint32_t size;
    uint32_t processor;
};

/* ---- map_instance: use the instance that is there, or make one, in which memory. ---- */

#define MANIPLE_FIND 0u
#define MANIPLE_CREATE 1u

struct maniple_map_instance_input {
    uint32_t size;
    uint32_t field;
    struct maniple_region region;
    uint64_t bytes;
    uint32_t processor; /* whose memory it is to be in */
    uint32_t coherence; /* MANIPLE_SIMULTANEOUS if several shards share it, else MANIPLE_EXCLUSIVE */
    uint32_t found;     /* memory of the instance that is there, or MANIPLE_NO_MEMORY; it may be replaced */
    uint32_t reserved;
    const struct maniple_machine *machine;
};

struct maniple_map_instance_output {
    uint32_t size;
    uint32_t choice;
    uint32_t memory; /* used with MANIPLE_CREATE */
};

/* ---- select_source: which of several holders of the same values sends them to one that needs them. ---- */

struct maniple_select_source_input {
    uint32_t size;
    uint32_t field;
    struct maniple_region region;
    const uint32_t *holders; /* processors, each once, the last writer first; at least two */
    size_t holders_length;
    uint32_t to; /* the processor that needs them */
    uint32_t reserved;
    const struct maniple_machine *machine;
};

struct maniple_select_source_output {
    uint32_t size;
    uint32_t processor; /* one of the holders */
};

/* ---- slice_index: which processor each point of an index launch is meant for. Once an index launch. ---- */

#define MANIPLE_SLICE_HERE 0u     /* all for the launching shard's */
#define MANIPLE_SLICE_BLOCKED 1u  /* runs of nearly equal length, one for each processor of the node */
#define MANIPLE_SLICE_EXPLICIT 2u /* those given to `add`, which together are all points in order */

struct maniple_slice_index_input {
    uint32_t size;
    uint32_t shard;
    struct maniple_text task;
    uint64_t points;
    uint32_t processor; /* the shard's */
    uint32_t reserved;
    const struct maniple_machine *machine;
};

struct maniple_slice_index_output {
    uint32_t size;
    uint32_t slicing;
    void *list; /* the first argument of `add` */
    /* Adds points begin to end - 1, for a processor of the shard's node that is no utility processor. */
    void (*add)(void *list, uint64_t begin, uint64_t end, uint32_t processor);
};

/* ---- map_leaf: where a leaf task runs, how soon, and how it reaches its regions. Once a leaf task. ---- */

struct maniple_requirement {
    struct maniple_region region;
    uint32_t field;
    uint32_t privilege;
    uint32_t coherence;
    uint32_t memory;    /* kind of memory of the valid instance */
    uint32_t processor; /* whose memory that is */
    uint32_t reserved;
    uint64_t bytes;
    uint64_t reduction; /* which operator, with MANIPLE_REDUCE */
};

struct maniple_map_leaf_input {
    uint32_t size;
    uint32_t shard;
    struct maniple_text task;
    const struct maniple_requirement *requirements;
    size_t requirements_length; /* may be 0 */
    uint32_t processor; /* the shard's or, of a point of an index launch, that of its slice */
    uint32_t reserved;
    const struct maniple_machine *machine;
};

struct maniple_map_leaf_output {
    uint32_t size;
    uint32_t processor; /* of the shard's node, and no utility processor */
    uint32_t priority;
    uint32_t copies_in; /* kind of memory that copies are made in */
    uint32_t profile;   /* 1: `profile` is told how long it took; 0: not */
    uint32_t reserved;
    uint32_t *access; /* one number for each requirement: MANIPLE_IN_PLACE or, for simultaneous reads only, MANIPLE_COPY */
};

/* ---- choose_algorithm: which of the algorithms that give the same bits a collective uses. Once a collective. ---- */

struct maniple_choose_algorithm_input {
    uint32_t size;
    uint32_t reserved;
    struct maniple_text collective;
    struct maniple_text kind; /* such as "allreduce" */
    const uint32_t *placement; /* the processor of each participant, in rank order */
    size_t placement_length;
    uint64_t bytes; /* of each contribution */
    const struct maniple_text *choices;
    size_t choices_length;
    const struct maniple_machine *machine;
};

struct maniple_choose_algorithm_output {
    uint32_t size;
    uint32_t choice; /* a position in `choices` */
};

/* ---- map_exchange: memory, access and priority of the rounds of a collective. Once a collective. ---- */

struct maniple_map_exchange_input {
    uint32_t size;
    uint32_t shards;
    struct maniple_text collective;
    uint64_t bytes; /* of one cell of the exchange region */
    const struct maniple_machine *machine;
};

struct maniple_map_exchange_output {
    uint32_t size;
    uint32_t memory;
    uint32_t access;
    uint32_t priority;
};

/* ---- profile: how a leaf task went whose map_leaf asked for it. Nothing is decided. ---- */

struct maniple_profile_input {
    uint32_t size;
    uint32_t shard;
    struct maniple_text task;
    uint32_t processor; /* that ran it */
    uint32_t reserved;
    uint64_t waited_ns; /* from its launch until it ran */
    uint64_t ran_ns;
};

/* ---- the table ---- */

struct maniple_library {
    uint32_t magic;   /* MANIPLE_MAPPER_MAGIC */
    uint32_t version; /* MANIPLE_MAPPER_VERSION */
    uint32_t size;    /* sizeof(struct maniple_library) */
    uint32_t reserved; /* 0 */

    /* Makes a mapper: what all other calls get as their first argument, or NULL after writing why not to `message`.
     * `options` is what follows the first comma of --mapper, "" if nothing does. Required. */
    void *(*create)(const char *options, char *message, size_t capacity);
    /* Drops it. */
    void (*destroy)(void *mapper);
    /* Its name in reports and errors, valid until `destroy`. Required. */
    const char *(*name)(void *mapper);

    int32_t (*place_shards)(void *mapper, const struct maniple_place_shards_input *input,
                            struct maniple_place_shards_output *output, char *message, size_t capacity);
    int32_t (*place_shared)(void *mapper, const struct maniple_place_shared_input *input,
                            struct maniple_place_shared_output *output, char *message, size_t capacity);
    int32_t (*map_instance)(void *mapper, const struct maniple_map_instance_input *input,
                            struct maniple_map_instance_output *output, char *message, size_t capacity);
    int32_t (*select_source)(void *mapper, const struct maniple_select_source_input *input,
                             struct maniple_select_source_output *output, char *message, size_t capacity);
    int32_t (*slice_index)(void *mapper, const struct maniple_slice_index_input *input,
                           struct maniple_slice_index_output *output, char *message, size_t capacity);
    int32_t (*map_leaf)(void *mapper, const struct maniple_map_leaf_input *input,
                        struct maniple_map_leaf_output *output, char *message, size_t capacity);
    int32_t (*choose_algorithm)(void *mapper, const struct maniple_choose_algorithm_input *input,
                                struct maniple_choose_algorithm_output *output, char *message, size_t capacity);
    int32_t (*map_exchange)(void *mapper, const struct maniple_map_exchange_input *input,
                            struct maniple_map_exchange_output *output, char *message, size_t capacity);
    int32_t (*profile)(void *mapper, const struct maniple_profile_input *input, char *message, size_t capacity);
};

/* What a library exports. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const struct maniple_library *
maniple_mapper_library(void);

#ifdef __cplusplus
}
#endif

#endif
