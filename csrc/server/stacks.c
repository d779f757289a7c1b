/* The stacks of the server's own threads. */
#include "server/stacks.h"

#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#define THREAD_STACK_BYTES (1u << 20) /* of the few long-lived threads */
#define MINCORE_PAGES 2048

void gp_stacks_init(struct gp_stacks *stacks)
{
    pthread_mutex_init(&stacks->lock, NULL);
    pthread_cond_init(&stacks->entered, NULL);
    stacks->ring.next = stacks->ring.previous = &stacks->ring;
    stacks->count = 0;
    stacks->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
}

void gp_stacks_enter(struct gp_stacks *stacks, struct gp_stack *stack)
{
    pthread_attr_t attributes;
    void *start = NULL;
    stack->bytes = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        pthread_attr_getstack(&attributes, &start, &stack->bytes);
        pthread_attr_destroy(&attributes);
    }
    stack->start = (uintptr_t)start;
    pthread_mutex_lock(&stacks->lock);
    stack->next = &stacks->ring;
    stack->previous = stacks->ring.previous;
    stack->previous->next = stack->next->previous = stack;
    stacks->count++;
    pthread_cond_broadcast(&stacks->entered);
    pthread_mutex_unlock(&stacks->lock);
}

void gp_stacks_leave(struct gp_stacks *stacks, struct gp_stack *stack)
{
    pthread_mutex_lock(&stacks->lock);
    stack->previous->next = stack->next;
    stack->next->previous = stack->previous;
    stacks->count--;
    pthread_mutex_unlock(&stacks->lock);
}

void gp_stacks_wait(struct gp_stacks *stacks, uint32_t count)
{
    pthread_mutex_lock(&stacks->lock);
    while (stacks->count < count)
        pthread_cond_wait(&stacks->entered, &stacks->lock);
    pthread_mutex_unlock(&stacks->lock);
}

uint32_t gp_stacks_count(struct gp_stacks *stacks)
{
    pthread_mutex_lock(&stacks->lock);
    uint32_t count = stacks->count;
    pthread_mutex_unlock(&stacks->lock);
    return count;
}

static uint64_t resident_bytes(uintptr_t start, size_t bytes, size_t page_bytes)
{
    unsigned char pages[MINCORE_PAGES];
    uint64_t resident = 0;
    while (bytes > 0) {
        size_t part = bytes < MINCORE_PAGES * page_bytes ? bytes : MINCORE_PAGES * page_bytes;
        if (mincore((void *)start, part, pages) < 0)
            return resident; /* a hole: nothing more can be resident that we know of */
        for (size_t i = 0; i < (part + page_bytes - 1) / page_bytes; i++)
            resident += (pages[i] & 1) * page_bytes;
        start += part;
        bytes -= part;
    }
    return resident;
}

void gp_stacks_measure(struct gp_stacks *stacks, uint64_t *inuse_bytes, uint64_t *sys_bytes)
{
    *inuse_bytes = *sys_bytes = 0;
    /* The lock keeps threads from ending, and their stacks from being unmapped, while these are looked at. */
    pthread_mutex_lock(&stacks->lock);
    for (struct gp_stack *stack = stacks->ring.next; stack != &stacks->ring; stack = stack->next) {
        *inuse_bytes += resident_bytes(stack->start, stack->bytes, stacks->page_bytes);
        *sys_bytes += stack->bytes;
    }
    pthread_mutex_unlock(&stacks->lock);
}

struct start { /* on the stack of the one who starts, who waits for it */
    struct gp_stacks *stacks;
    void (*run)(void *);
    void *argument;
    bool entered;
};

static void *thread_main(void *argument)
{
    struct start *place = argument, start = *place;
    struct gp_stack stack;
    gp_stacks_enter(start.stacks, &stack);
    pthread_mutex_lock(&start.stacks->lock);
    place->entered = true;
    pthread_cond_broadcast(&start.stacks->entered);
    pthread_mutex_unlock(&start.stacks->lock);
    start.run(start.argument);
    gp_stacks_leave(start.stacks, &stack);
    return NULL;
}

int gp_stacks_thread(struct gp_stacks *stacks, void (*run)(void *), void *argument)
{
    struct start start = {.stacks = stacks, .run = run, .argument = argument};
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, THREAD_STACK_BYTES);
    int error = pthread_create(&thread, &attributes, thread_main, &start);
    pthread_attr_destroy(&attributes);
    pthread_mutex_lock(&stacks->lock);
    while (!error && !start.entered)
        pthread_cond_wait(&stacks->entered, &stacks->lock);
    pthread_mutex_unlock(&stacks->lock);
    return error;
}
