/* A library with every call. With the option "echo" each says what it was asked, else it gives an answer of its own. The
 * macro SIZE makes its table end sooner, as that of an older library does. */
#include "maniple_mapper.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#ifndef SIZE
#define SIZE sizeof(struct maniple_library)
#endif

static int echoes, answers;

static void *create(const char *options, char *message, size_t capacity) {
    (void)message, (void)capacity;
    return strcmp(options, "echo") == 0 ? &echoes : &answers;
}

static const char *name(void *mapper) { return mapper == &echoes ? "echoes" : "answers"; }

/* Begins or goes on with a text. */
static void say(char *message, size_t capacity, const char *format, ...) {
    size_t length = strlen(message);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message + length, capacity - length, format, arguments);
    va_end(arguments);
}

static void say_machine(char *message, size_t capacity, const struct maniple_machine *m) {
    say(message, capacity, " machine(%u %u %u %u)", m->size == sizeof *m, m->processors, m->per_node, m->utility);
}

static void say_region(char *message, size_t capacity, const struct maniple_region *r) {
    say(message, capacity, " region(%u", r->tree);
    for (uint32_t d = 0; d < r->dimensions; d++)
        say(message, capacity, " %" PRId64 "..%" PRId64, r->lo[d], r->hi[d]);
    say(message, capacity, ")");
}

#define ASKED(sizes) (say(message, capacity, "%d", (sizes)))
#define SIZES (input->size == sizeof *input && output->size == sizeof *output)
#define SAY(...) say(message, capacity, " " __VA_ARGS__)
#define TEXT(t) (int)(t).length, (t).bytes

static int32_t place_shards(void *mapper, const struct maniple_place_shards_input *input,
                            struct maniple_place_shards_output *output, char *message, size_t capacity) {
    if (mapper == &echoes) {
        ASKED(SIZES);
        SAY("%u %.*s %u", input->shards, TEXT(input->gang), output->placement);
        say_machine(message, capacity, input->machine);
        return MANIPLE_FAILED;
    }
    output->placement = MANIPLE_EXPLICIT;
    for (uint32_t s = 0; s < input->shards; s++)
        output->processors[s] = s * 10;
    return MANIPLE_OK;
}

static int32_t place_shared(void *mapper, const struct maniple_place_shared_input *input,
                            struct maniple_place_shared_output *output, char *message, size_t capacity) {
    if (mapper == &echoes) {
        ASKED(SIZES);
        SAY("%u %u", input->field, output->processor);
        say_region(message, capacity, &input->region);
        for (size_t i = 0; i < input->namers_length; i++)
            SAY("%u:%u", input->namers[i].processor, input->namers[i].privilege);
        say_machine(message, capacity, input->machine);
        return MANIPLE_FAILED;
    }
    output->processor = 11;
    return MANIPLE_OK;
}

static int32_t map_instance(void *mapper, const struct maniple_map_instance_input *input,
                            struct maniple_map_instance_output *output, char *message, size_t capacity) {
    if (mapper == &echoes) {
        ASKED(SIZES);
        SAY("%u", input->field);
        say_region(message, capacity, &input->region);
        SAY("%" PRIu64 " %u %u %u, %u %u", input->bytes, input->processor, input->coherence, input->found,
            output->choice, output->memory);
        say_machine(message, capacity, input->machine);
        return MANIPLE_FAILED;
    }
    output->choice = MANIPLE_CREATE;
    output->memory = MANIPLE_REGISTERED;
    return MANIPLE_OK;
}

static int32_t select_source(void *mapper, const struct maniple_select_source_input *input,
                             struct maniple_select_source_output *output, char *message, size_t capacity) {
    if (mapper == &echoes) {
        ASKED(SIZES);
        SAY("%u", input->field);
        say_region(message, capacity, &input->region);
        for (size_t i = 0; i < input->holders_length; i++)
            SAY("%u", input->holders[i]);
        SAY("to %u, %u", input->to, output->processor);
        say_machine(message, capacity, input->machine);
        return MANIPLE_FAILED;
    }
    output->processor = 12;
    return MANIPLE_OK;
}

static int32_t keep_instance(void *mapper, const struct maniple_keep_instance_input *input,
                             struct maniple_keep_instance_output *output, char *message, size_t capacity) {
    if (mapper == &echoes) {
        ASKED(SIZES);
        SAY("%u", input->field);
        say_region(message, capacity, &input->region);
        SAY("%" PRIu64 " %u, %u", input->bytes, input->processor, output->keep);
        say_machine(message, capacity, input->machine);
        return MANIPLE_FAILED;
    }
    output->keep = 0;
    return MANIPLE_OK;
}

static int32_t route(void *mapper, const struct maniple_route_input *input, struct maniple_route_output *output,
                     char *message, size_t capacity) {
    if (mapper == &echoes) {
        ASKED(SIZES);
        SAY("%u", input->field);
        say_region(message, capacity, &input->region);
        SAY("%" PRIu64 " from %u", input->bytes, input->from);
        for (size_t i = 0; i < input->recipients_length; i++)
            SAY("%u:%u", input->recipients[i], input->priorities[i]);
        SAY(", %u", output->route);
        say_machine(message, capacity, input->machine);
        return MANIPLE_FAILED;
    }
    /* Three recipients get a route that there is not, and others a chain. */
    output->route = input->recipients_length == 3 ? 9 : MANIPLE_TREE;
    for (size_t i = 0; i < input->recipients_length; i++)
        output->parents[i] = (uint32_t)i;
    return MANIPLE_OK;
}

static int32_t slice_index(void *mapper, const struct maniple_slice_index_input *input,
                           struct maniple_slice_index_output *output, char *message, size_t capacity) {
    if (mapper == &echoes) {
        ASKED(SIZES);
        SAY("%u %.*s %" PRIu64 " %u, %u", input->shard, TEXT(input->task), input->points, input->processor,
            output->slicing);
        say_machine(message, capacity, input->machine);
        return MANIPLE_FAILED;
    }
    output->slicing = MANIPLE_SLICE_EXPLICIT;
    output->add(output->list, 0, 3, 4);
    output->add(output->list, 3, UINT64_MAX, MANIPLE_ANYWHERE);
    return MANIPLE_OK;
}

static void say_requirements(char *message, size_t capacity, const struct maniple_requirement *r, size_t length) {
    for (size_t i = 0; i < length; i++, r++) {
        say_region(message, capacity, &r->region);
        SAY("%u %u %u %u %u %" PRIu64 " %d", r->field, r->privilege, r->coherence, r->memory, r->processor, r->bytes,
            r->reduction != 0);
    }
}

static int32_t place_task(void *mapper, const struct maniple_place_task_input *input,
                          struct maniple_place_task_output *output, char *message, size_t capacity) {
    if (mapper == &echoes) {
        ASKED(SIZES);
        SAY("%.*s %u %u", TEXT(input->task), input->node, input->nodes);
        say_requirements(message, capacity, input->requirements, input->requirements_length);
        SAY(", %u", output->node);
        say_machine(message, capacity, input->machine);
        return MANIPLE_FAILED;
    }
    output->node = 15;
    return MANIPLE_OK;
}

static int32_t map_leaf(void *mapper, const struct maniple_map_leaf_input *input,
                        struct maniple_map_leaf_output *output, char *message, size_t capacity) {
    if (mapper == &echoes) {
        ASKED(SIZES);
        SAY("%u %.*s %u", input->shard, TEXT(input->task), input->processor);
        say_requirements(message, capacity, input->requirements, input->requirements_length);
        SAY(", %u %u %u %u", output->processor, output->priority, output->copies_in, output->profile);
        for (size_t i = 0; i < input->requirements_length; i++)
            SAY("%u", output->access[i]);
        say_machine(message, capacity, input->machine);
        return MANIPLE_FAILED;
    }
    output->processor = input->shard == 77 ? MANIPLE_ANYWHERE : 13;
    output->priority = 7;
    output->copies_in = MANIPLE_REGISTERED;
    output->profile = 1;
    for (size_t i = 0; i < input->requirements_length; i++)
        output->access[i] =
            input->requirements[i].coherence == MANIPLE_SIMULTANEOUS ? MANIPLE_COPY : MANIPLE_IN_PLACE;
    return MANIPLE_OK;
}

static int32_t choose_algorithm(void *mapper, const struct maniple_choose_algorithm_input *input,
                                struct maniple_choose_algorithm_output *output, char *message, size_t capacity) {
    if (mapper == &echoes) {
        ASKED(SIZES);
        SAY("%.*s %.*s %" PRIu64, TEXT(input->collective), TEXT(input->kind), input->bytes);
        for (size_t i = 0; i < input->placement_length; i++)
            SAY("%u", input->placement[i]);
        for (size_t i = 0; i < input->choices_length; i++)
            SAY("%.*s", TEXT(input->choices[i]));
        SAY(", %u", output->choice);
        say_machine(message, capacity, input->machine);
        return MANIPLE_FAILED;
    }
    output->choice = 14;
    return MANIPLE_OK;
}

static int32_t map_collective(void *mapper, const struct maniple_map_collective_input *input,
                            struct maniple_map_collective_output *output, char *message, size_t capacity) {
    if (mapper == &echoes) {
        ASKED(SIZES);
        SAY("%u %.*s %" PRIu64 ", %u %u %u", input->shards, TEXT(input->collective), input->bytes, output->memory,
            output->access, output->priority);
        say_machine(message, capacity, input->machine);
        return MANIPLE_FAILED;
    }
    output->memory = MANIPLE_REGISTERED;
    output->access = MANIPLE_IN_PLACE;
    output->priority = 5;
    return MANIPLE_OK;
}

static int32_t profile(void *mapper, const struct maniple_profile_input *input, char *message, size_t capacity) {
    if (mapper == &echoes) {
        ASKED(input->size == sizeof *input);
        SAY("%u %.*s %u %" PRIu64 " %" PRIu64, input->shard, TEXT(input->task), input->processor, input->waited_ns,
            input->ran_ns);
        return MANIPLE_FAILED;
    }
    return MANIPLE_OK;
}

static const struct maniple_library library = {
    .magic = MANIPLE_MAPPER_MAGIC,
    .version = MANIPLE_MAPPER_VERSION,
    .size = SIZE,
    .create = create,
    .name = name,
    .place_shards = place_shards,
    .place_shared = place_shared,
    .map_instance = map_instance,
    .select_source = select_source,
    .slice_index = slice_index,
    .map_leaf = map_leaf,
    .choose_algorithm = choose_algorithm,
    .map_collective = map_collective,
    .profile = profile,
    .keep_instance = keep_instance,
    .place_task = place_task,
    .route = route,
};

const struct maniple_library *maniple_mapper_library(void) { return &library; }
