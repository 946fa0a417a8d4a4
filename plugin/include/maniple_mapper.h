/*
 * The interface between maniple and a mapper in a shared library, version 2. For C99 and C++11.
 *
 * A library exports one function, `maniple_mapper_library`, which returns a table. The table has functions that make
 * a mapper, drop it and tell its name, and one function for each call. A null pointer leaves that call to the stock
 * mapper `collective`. The trait `Mapper` of the crate maniple-mapper documents each call under the same name: when
 * it is made, and which answers are legal. examples/plugin-c is a library to copy.
 *
 *     maniple stencil --mapper ./libmine.so,options
 *
 * Rules:
 *
 * 1. The library runs in the program and is trusted. If it crashes, exits or hangs, so does the program. It stays
 *    loaded until the process ends. `destroy` drops a mapper, on any thread, when no call of it is under way.
 * 2. Calls come from any thread, several at once. A call must return soon, because the processor that asks waits for
 *    it. A call must not end by a C++ exception, which ends the process, or by longjmp.
 * 3. Every node of a program makes the same calls to place_shards, place_shared, place_task, select_source,
 *    keep_instance, choose_algorithm and map_collective. Their answers must be pure functions of the inputs and the options.
 * 4. A call returns MANIPLE_OK, or MANIPLE_FAILED after it has written a message. `message` is a buffer of `capacity`
 *    bytes (at least 256) for NUL-terminated UTF-8: snprintf(message, capacity, ...) does it. A failed call fails
 *    whatever asked, with that message.
 * 5. Inputs and outputs, with all they point to, are valid during the call only, and on its thread. Outputs belong to
 *    the caller. They hold the answer of `collective` before the call.
 * 6. Every answer is checked. An illegal one fails whatever asked.
 * 7. Each structure that a call gets begins with its size in bytes, as the caller knows it. Later versions of maniple
 *    may add fields at the end, and calls at the end of the table, under the same version number. The library's
 *    `size` says which calls it knows. Structures without a size, which are in lists or in other structures, never
 *    change.
 *
 * Texts of inputs are UTF-8 with a length, without a NUL at the end. The options, and the texts that a library gives
 * back, are NUL-terminated UTF-8.
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

/* The status that a call returns. */
#define MANIPLE_OK 0
#define MANIPLE_FAILED 1

/* Kinds of memory. Data in ordinary memory is staged through a buffer on its way to other processors. Registered memory
 * is open to remote access. */
#define MANIPLE_NO_MEMORY 0u
#define MANIPLE_ORDINARY 1u
#define MANIPLE_REGISTERED 2u

/* Privileges: the use that a task may make of a region. */
#define MANIPLE_READ 0u
#define MANIPLE_READ_WRITE 1u
#define MANIPLE_WRITE_DISCARD 2u
#define MANIPLE_REDUCE 3u

/* Coherence: the use that other tasks may make of the region at the same time. */
#define MANIPLE_EXCLUSIVE 0u
#define MANIPLE_ATOMIC 1u
#define MANIPLE_SIMULTANEOUS 2u

/* Access: a task uses a region where it is, or by a copy near the task. */
#define MANIPLE_IN_PLACE 0u
#define MANIPLE_COPY 1u

/* Priorities of ready tasks: 0 to MANIPLE_PRIORITIES - 1. The highest runs first. */
#define MANIPLE_PRIORITIES 8u
#define MANIPLE_NORMAL 3u
#define MANIPLE_RAISED 6u

/* As the `processor` of an answer of map_leaf: any processor of the task's node that runs leaf tasks, whichever is free
 * first. */
#define MANIPLE_ANYWHERE 0xffffffffu

/* A text of an input: `length` bytes of UTF-8, without a NUL. Print it by printf("%.*s", (int)t.length, t.bytes). */
struct maniple_text {
    const char *bytes;
    size_t length;
};

/* The processors of a run have the numbers 0 to processors - 1. Processors k * per_node to (k + 1) * per_node - 1 form
 * node k and share an address space. The last `utility` processors of each node run no leaf tasks. At least one of each
 * node does. */
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

/* ---- place_shards: the processor of each shard of a gang. Asked once for each gang.
 *
 * W is the number of processors that get shards by default: those that run leaf tasks or, in virtual time, the utility
 * processors if there are any. ---- */

#define MANIPLE_BLOCKED 0u  /* shard s of P on the processor s * W / P of these */
#define MANIPLE_CYCLIC 1u   /* shard s on the processor s mod W of these */
#define MANIPLE_EXPLICIT 2u /* shard s on processor processors[s], which may be any processor */

struct maniple_place_shards_input {
    uint32_t size;
    uint32_t shards;
    struct maniple_text gang;
    const struct maniple_machine *machine;
};

struct maniple_place_shards_output {
    uint32_t size;
    uint32_t placement;
    uint32_t *processors; /* space for one number for each shard; read with MANIPLE_EXPLICIT */
};

/* ---- place_shared: the processor that has the one instance of a region that several shards use at once. Asked once
 * for each such region and launch. ---- */

struct maniple_namer {
    uint32_t processor;
    uint32_t privilege;
};

struct maniple_place_shared_input {
    uint32_t size;
    uint32_t field;
    struct maniple_region region;
    const struct maniple_namer *namers; /* processor and privilege of each requirement for the region, in shard order */
    size_t namers_length;
    const struct maniple_machine *machine;
};

struct maniple_place_shared_output {
    uint32_t size;
    uint32_t processor;
};

/* ---- map_instance: go on with the present instance or make a new one, and its memory. ---- */

#define MANIPLE_FIND 0u
#define MANIPLE_CREATE 1u

struct maniple_map_instance_input {
    uint32_t size;
    uint32_t field;
    struct maniple_region region;
    uint64_t bytes;
    uint32_t processor; /* the processor that needs the instance */
    uint32_t coherence; /* MANIPLE_SIMULTANEOUS if several shards use it at once, else MANIPLE_EXCLUSIVE */
    uint32_t found;     /* memory of the present instance, which may be replaced, or MANIPLE_NO_MEMORY */
    uint32_t reserved;
    const struct maniple_machine *machine;
};

struct maniple_map_instance_output {
    uint32_t size;
    uint32_t choice;
    uint32_t memory; /* read with MANIPLE_CREATE */
};

/* ---- select_source: the processor that sends valid values to one that needs them, if several have them. ---- */

struct maniple_select_source_input {
    uint32_t size;
    uint32_t field;
    struct maniple_region region;
    const uint32_t *holders; /* at least two processors, each once, the last writer first */
    size_t holders_length;
    uint32_t to; /* the processor that needs the values */
    uint32_t reserved;
    const struct maniple_machine *machine;
};

struct maniple_select_source_output {
    uint32_t size;
    uint32_t processor; /* one of the holders */
};

/* ---- keep_instance: whether an instance may stay when every point of it has the same or a newer value elsewhere. Asked
 * when a launch of the top-level task first uses the instance. ---- */

struct maniple_keep_instance_input {
    uint32_t size;
    uint32_t field;
    struct maniple_region region;
    uint64_t bytes;
    uint32_t processor; /* the one that has it */
    uint32_t reserved;
    const struct maniple_machine *machine;
};

struct maniple_keep_instance_output {
    uint32_t size;
    uint32_t keep; /* 1 if it may stay, up to the run's bound of memory; 0 if it goes at once */
};

/* ---- route: how the same values reach several nodes. Asked by the processor that sends them.
 *
 * Who has the values sends them to one other processor in a round. No recipient may get them in a later round than one
 * with a lower priority. ---- */

#define MANIPLE_BINOMIAL 0u /* in each round everyone who has them sends them to one more recipient, in order */
#define MANIPLE_LINEAR 1u   /* the sender sends to each recipient, in order */
#define MANIPLE_TREE 2u     /* each recipient gets them from its parent, which sends to its children in order */

struct maniple_route_input {
    uint32_t size;
    uint32_t field;
    struct maniple_region region;
    uint64_t bytes;
    const uint32_t *recipients; /* at least two processors */
    const uint32_t *priorities; /* one for each recipient; the highest is first */
    size_t recipients_length;
    uint32_t from; /* the processor that sends */
    uint32_t reserved;
    const struct maniple_machine *machine;
};

struct maniple_route_output {
    uint32_t size;
    uint32_t route;
    /* Space for one number for each recipient; read with MANIPLE_TREE. parents[i] is the parent of recipients[i]: 0 for
     * the sender, or j + 1 for recipients[j] with j below i. */
    uint32_t *parents;
};

/* ---- slice_index: the processor that each point of an index launch is meant for. Asked once for each launch. ---- */

#define MANIPLE_SLICE_HERE 0u     /* all points for the shard's processor */
#define MANIPLE_SLICE_BLOCKED 1u  /* runs of nearly equal length, one for each processor that runs leaf tasks */
#define MANIPLE_SLICE_EXPLICIT 2u /* the runs given to `add`, which together are all points in order */

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
    /* Adds points begin to end - 1, for a processor of the shard's node that runs leaf tasks, or for MANIPLE_ANYWHERE. */
    void (*add)(void *list, uint64_t begin, uint64_t end, uint32_t processor);
};

/* ---- map_leaf: processor and priority of a leaf task, and its access to regions. Asked once for each task. ---- */

struct maniple_requirement {
    struct maniple_region region;
    uint32_t field;
    uint32_t privilege;
    uint32_t coherence;
    uint32_t memory;    /* kind of memory of the valid instance */
    uint32_t processor; /* the processor of that memory */
    uint32_t reserved;
    uint64_t bytes;
    uint64_t reduction; /* the operator, with MANIPLE_REDUCE */
};

struct maniple_map_leaf_input {
    uint32_t size;
    uint32_t shard;
    struct maniple_text task;
    const struct maniple_requirement *requirements;
    size_t requirements_length; /* may be 0 */
    uint32_t processor; /* the shard's or, for a point of an index launch, its slice's */
    uint32_t reserved;
    const struct maniple_machine *machine;
};

struct maniple_map_leaf_output {
    uint32_t size;
    uint32_t processor; /* of the task's node, and one that runs leaf tasks; or MANIPLE_ANYWHERE */
    uint32_t priority;
    uint32_t copies_in; /* kind of memory that copies are made in */
    uint32_t profile;   /* 1 if `profile` is to get the task's times, else 0 */
    uint32_t reserved;
    uint32_t *access; /* for each requirement MANIPLE_IN_PLACE or, for simultaneous reads only, MANIPLE_COPY */
};

/* ---- place_task: the node of a leaf task of the top-level task. Asked once for each such task that is launched without
 * a node. ---- */

struct maniple_place_task_input {
    uint32_t size;
    uint32_t node; /* the node that has the first region that the task writes, or else its first region */
    struct maniple_text task;
    const struct maniple_requirement *requirements;
    size_t requirements_length; /* may be 0 */
    uint32_t nodes;             /* number of nodes */
    uint32_t reserved;
    const struct maniple_machine *machine;
};

struct maniple_place_task_output {
    uint32_t size;
    uint32_t node; /* below `nodes` */
};

/* ---- choose_algorithm: the algorithm of a collective, among those that give the same bits. Asked once for each
 * collective, if the program leaves the algorithm open. ---- */

struct maniple_choose_algorithm_input {
    uint32_t size;
    uint32_t reserved;
    struct maniple_text collective;
    struct maniple_text kind; /* such as "allreduce" */
    const uint32_t *placement; /* the processor of each participant, in rank order */
    size_t placement_length;
    uint64_t bytes; /* of the contribution of one participant */
    const struct maniple_text *choices;
    size_t choices_length;
    const struct maniple_machine *machine;
};

struct maniple_choose_algorithm_output {
    uint32_t size;
    uint32_t choice; /* a position in `choices` */
};

/* ---- map_collective: memory, access and priority of the rounds of a collective. Asked once for each collective, and
 * again after the mapper was replaced. ---- */

struct maniple_map_collective_input {
    uint32_t size;
    uint32_t shards;
    struct maniple_text collective;
    uint64_t bytes; /* of one cell of the exchange region */
    const struct maniple_machine *machine;
};

struct maniple_map_collective_output {
    uint32_t size;
    uint32_t memory;
    uint32_t access;
    uint32_t priority;
};

/* ---- profile: the times of a leaf task, if its map_leaf asked for them. It decides nothing. ---- */

struct maniple_profile_input {
    uint32_t size;
    uint32_t shard;
    struct maniple_text task;
    uint32_t processor; /* the processor that ran it */
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

    /* Makes a mapper, which all other calls get as their first argument. If it can't, it writes the reason to `message`
     * and returns NULL. `options` is the text after the first comma of --mapper, or "". Required. */
    void *(*create)(const char *options, char *message, size_t capacity);
    /* Drops a mapper. */
    void (*destroy)(void *mapper);
    /* The mapper's name in reports and errors: at most 255 bytes, valid until `destroy`. Required. */
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
    int32_t (*map_collective)(void *mapper, const struct maniple_map_collective_input *input,
                            struct maniple_map_collective_output *output, char *message, size_t capacity);
    int32_t (*profile)(void *mapper, const struct maniple_profile_input *input, char *message, size_t capacity);
    int32_t (*keep_instance)(void *mapper, const struct maniple_keep_instance_input *input,
                             struct maniple_keep_instance_output *output, char *message, size_t capacity);
    int32_t (*place_task)(void *mapper, const struct maniple_place_task_input *input,
                          struct maniple_place_task_output *output, char *message, size_t capacity);
    int32_t (*route)(void *mapper, const struct maniple_route_input *input, struct maniple_route_output *output,
                     char *message, size_t capacity);
};

/* The function that a library exports. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const struct maniple_library *
maniple_mapper_library(void);

#ifdef __cplusplus
}
#endif

#endif
