/*
 * One row of the peers table on MPI: `mpi OPERATION BYTES`. BYTES is the chunk for each peer of all_to_all and
 * allgather, the whole buffer of allreduce, and the payload of put.
 *
 * Calls run back to back between two barriers, behind a warm-up, and their time is divided by their number, as
 * `rankwise bench` does it; one more call into cleared memory is then checked. Rank 0 prints one line of JSON.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARMUP_CALLS = 5000, CALLS_MIN = 10, CALLS_MAX = 20000 };
static const double WARMUP_S = 0.7, TOGETHER_S = 0.7;

typedef struct {
  int rank, nranks;
  long bytes; /* of the argument */
  void *input, *output;
  MPI_Win window;
  int32_t *exposed; /* this rank's part of the window */
} Work;

typedef struct {
  const char *name;
  void (*prepare)(Work *);
  void (*call)(Work *);
  void (*clear)(Work *);
  long (*wrong)(const Work *);
} Operation;

/* A value that names source, destination and element. */
static int32_t named(int source, int destination, long element) {
  return (int32_t)((source * 1000003L + destination * 10007L + element * 31 + 1) % 2147483647L);
}

/* Operands small enough that their float sum is exact. */
static float operand(int source, long element) { return (float)((source * 5 + element * 3) % 11); }

static void *memory(long bytes) {
  void *pointer = calloc(1, bytes > 0 ? (size_t)bytes : 1);
  if (pointer == NULL) {
    fprintf(stderr, "no memory for %ld bytes\n", bytes);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  return pointer;
}

static void clear_output(Work *work, long bytes) { memset(work->output, 0xff, (size_t)bytes); }

/* all_to_all: chunk d of the input goes to rank d */

static void prepare_all_to_all(Work *work) {
  long count = work->bytes / 4;
  int32_t *input = work->input = memory(work->bytes * work->nranks);
  work->output = memory(work->bytes * work->nranks);
  for (int d = 0; d < work->nranks; d++)
    for (long i = 0; i < count; i++) input[d * count + i] = named(work->rank, d, i);
}

static void call_all_to_all(Work *work) {
  int count = (int)(work->bytes / 4);
  MPI_Alltoall(work->input, count, MPI_INT32_T, work->output, count, MPI_INT32_T, MPI_COMM_WORLD);
}

static void clear_chunks(Work *work) { clear_output(work, work->bytes * work->nranks); }

static long wrong_all_to_all(const Work *work) {
  long count = work->bytes / 4, wrong = 0;
  const int32_t *output = work->output;
  for (int s = 0; s < work->nranks; s++)
    for (long i = 0; i < count; i++) wrong += output[s * count + i] != named(s, work->rank, i);
  return wrong;
}

/* allgather: everybody gets everybody's input */

static void prepare_allgather(Work *work) {
  int32_t *input = work->input = memory(work->bytes);
  work->output = memory(work->bytes * work->nranks);
  for (long i = 0; i < work->bytes / 4; i++) input[i] = named(work->rank, 0, i);
}

static void call_allgather(Work *work) {
  int count = (int)(work->bytes / 4);
  MPI_Allgather(work->input, count, MPI_INT32_T, work->output, count, MPI_INT32_T, MPI_COMM_WORLD);
}

static long wrong_allgather(const Work *work) {
  long count = work->bytes / 4, wrong = 0;
  const int32_t *output = work->output;
  for (int s = 0; s < work->nranks; s++)
    for (long i = 0; i < count; i++) wrong += output[s * count + i] != named(s, 0, i);
  return wrong;
}

/* allreduce: float sum */

static void prepare_allreduce(Work *work) {
  float *input = work->input = memory(work->bytes);
  work->output = memory(work->bytes);
  for (long i = 0; i < work->bytes / 4; i++) input[i] = operand(work->rank, i);
}

static void call_allreduce(Work *work) {
  MPI_Allreduce(work->input, work->output, (int)(work->bytes / 4), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void clear_whole(Work *work) { clear_output(work, work->bytes); }

static long wrong_allreduce(const Work *work) {
  long wrong = 0;
  const float *output = work->output;
  for (long i = 0; i < work->bytes / 4; i++) {
    float sum = 0;
    for (int s = 0; s < work->nranks; s++) sum += operand(s, i);
    wrong += output[i] != sum;
  }
  return wrong;
}

/* put and flush: rank 0 writes into rank 1's window, in one epoch; the others wait in the barrier behind it */

static void prepare_put(Work *work) {
  int32_t *input = work->input = memory(work->bytes);
  for (long i = 0; i < work->bytes / 4; i++) input[i] = named(work->rank, 0, i);
  MPI_Win_allocate(work->bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &work->exposed, &work->window);
  MPI_Win_lock_all(0, work->window);
}

static void call_put(Work *work) {
  if (work->rank != 0) return;
  int target = work->nranks > 1 ? 1 : 0;
  MPI_Put(work->input, (int)work->bytes, MPI_BYTE, target, 0, (int)work->bytes, MPI_BYTE, work->window);
  MPI_Win_flush(target, work->window);
}

static void clear_put(Work *work) {
  memset(work->exposed, 0xff, (size_t)work->bytes);
  MPI_Win_sync(work->window);
}

static long wrong_put(const Work *work) {
  long wrong = 0;
  if (work->rank != (work->nranks > 1 ? 1 : 0)) return 0;
  MPI_Win_sync(work->window);
  for (long i = 0; i < work->bytes / 4; i++) wrong += work->exposed[i] != named(0, 0, i);
  return wrong;
}

/* barrier */

static void nothing(Work *work) { (void)work; }
static void call_barrier(Work *work) {
  (void)work;
  MPI_Barrier(MPI_COMM_WORLD);
}
static long nothing_wrong(const Work *work) {
  (void)work;
  return 0;
}

static const Operation operations[] = {
    {"all_to_all", prepare_all_to_all, call_all_to_all, clear_chunks, wrong_all_to_all},
    {"allgather", prepare_allgather, call_allgather, clear_chunks, wrong_allgather},
    {"allreduce", prepare_allreduce, call_allreduce, clear_whole, wrong_allreduce},
    {"put", prepare_put, call_put, clear_put, wrong_put},
    {"barrier", nothing, call_barrier, nothing, nothing_wrong},
};

/* Seconds that the slowest rank needs for so many calls between two barriers. */
static double together(const Operation *operation, Work *work, long calls) {
  MPI_Barrier(MPI_COMM_WORLD);
  double started = MPI_Wtime();
  for (long i = 0; i < calls; i++) operation->call(work);
  MPI_Barrier(MPI_COMM_WORLD);
  double own = MPI_Wtime() - started, slowest;
  MPI_Allreduce(&own, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest;
}

static long least(long a, long b) { return a < b ? a : b; }
static long most(long a, long b) { return a > b ? a : b; }

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  Work work = {0};
  MPI_Comm_rank(MPI_COMM_WORLD, &work.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &work.nranks);
  const Operation *operation = NULL;
  for (size_t i = 0; argc == 3 && i < sizeof operations / sizeof *operations; i++)
    if (strcmp(operations[i].name, argv[1]) == 0) operation = &operations[i];
  work.bytes = argc == 3 ? atol(argv[2]) : -1;
  if (operation == NULL || work.bytes < 0 || work.bytes % 4 != 0) {
    if (work.rank == 0) fprintf(stderr, "usage: mpi all_to_all|allgather|allreduce|put|barrier BYTES\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
    return 2;
  }
  operation->prepare(&work);

  long warm = 0;
  double passed = 0, each = 0;
  for (long batch = 1; warm < WARMUP_CALLS && passed < WARMUP_S; batch *= 2) {
    long fits = each == 0 ? batch : most(1, (long)((WARMUP_S - passed) / each));
    long calls = least(least(batch, fits), WARMUP_CALLS - warm);
    double seconds = together(operation, &work, calls);
    warm += calls;
    passed += seconds;
    each = seconds / calls;
  }
  long calls = least(CALLS_MAX, most(CALLS_MIN, (long)(TOGETHER_S / each)));
  double us = together(operation, &work, calls) * 1e6 / calls;

  MPI_Barrier(MPI_COMM_WORLD);
  operation->clear(&work);
  MPI_Barrier(MPI_COMM_WORLD);
  operation->call(&work);
  MPI_Barrier(MPI_COMM_WORLD);
  long own = operation->wrong(&work), wrong;
  MPI_Allreduce(&own, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  if (work.rank == 0) printf("{\"us\":%.3f,\"calls\":%ld,\"warmupCalls\":%ld,\"wrong\":%ld}\n", us, calls, warm, wrong);
  if (work.exposed != NULL) {
    MPI_Win_unlock_all(work.window);
    MPI_Win_free(&work.window);
  }
  MPI_Finalize();
  return 0;
}
