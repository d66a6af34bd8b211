/*
 * Copyright The flux-elastic Authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * Halo simulates how heat spreads on a ring of cells. Each rank has one piece of the ring, and
 * sends its outermost cells to its neighbours in every step. A sine wave keeps its form and
 * fades at a known rate, so the right result is known. The checksum does not depend on the number
 * of ranks either.
 *
 *     halo [STEPS [CELLS [PAUSE]]]
 *
 * It waits PAUSE ms before each step, and before the last one until the file HALO_GATE exists. In
 * the directory FLUX_MINICLUSTER_CHECKPOINT it goes on from the file halo, if that is there. If a
 * rank gets SIGUSR1, all ranks write the file anew, between two steps, and rank 0 tells that by the
 * file FLUX_MINICLUSTER_CHECKPOINT_WRITTEN.
 */
#include <math.h>
#include <mpi.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * Part waits for all ranks by a barrier of PMI, which needs no MPI. MPI_Finalize of MPICH before
 * 4.2 needs this barrier over UCX and TCP. In MPI_Finalize a rank waits until all others have
 * confirmed its messages, and after that confirms no messages itself. So a rank that enters
 * MPI_Finalize late would wait for ever. Since 4.2 MPI_Finalize begins with such a barrier.
 */
static void part(void)
{
#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION < 40200000
	const char *pmi = getenv("PMI_FD"), in[] = "cmd=barrier_in\n";
	if (!pmi)
		return;
	int fd = atoi(pmi);
	char c = 0;
	if (write(fd, in, sizeof(in) - 1) != sizeof(in) - 1)
		MPI_Abort(MPI_COMM_WORLD, 1);
	while (c != '\n') /* cmd=barrier_out */
		if (read(fd, &c, 1) != 1)
			MPI_Abort(MPI_COMM_WORLD, 1);
#endif
}

/* A checkpoint has the number of steps that are done, the number of cells, and the cells. */
struct head {
	int64_t steps, cells;
};

static volatile sig_atomic_t asked; /* for a checkpoint */

static void ask(int signal)
{
	(void)signal;
	asked = 1;
}

/* Failed ends all ranks. */
static void failed(const char *what)
{
	fprintf(stderr, "halo: %s failed\n", what);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Path is a file of the directory for checkpoints; "" if there is none. */
static const char *path(char text[4096], const char *name)
{
	const char *dir = getenv("FLUX_MINICLUSTER_CHECKPOINT");
	text[0] = 0;
	if (dir && *dir && snprintf(text, 4096, "%s/%s", dir, name) >= 4096)
		failed("a long path");
	return text;
}

/* Load reads the piece that begins at a cell from the checkpoint, and returns its number of steps; 0 if there is no checkpoint. */
static long load(double *piece, long begin, long mine, long cells)
{
	char from[4096];
	struct head head;
	MPI_File file;
	if (!*path(from, "halo") || MPI_File_open(MPI_COMM_WORLD, from, MPI_MODE_RDONLY, MPI_INFO_NULL, &file))
		return 0;
	if (MPI_File_read_at_all(file, 0, &head, sizeof(head), MPI_BYTE, MPI_STATUS_IGNORE) || head.cells != cells ||
	    MPI_File_read_at_all(file, sizeof(head) + begin * sizeof(double), piece, mine, MPI_DOUBLE, MPI_STATUS_IGNORE))
		failed("reading the checkpoint");
	MPI_File_close(&file);
	return head.steps;
}

/* Save writes the checkpoint of all pieces. Until it is whole, the one before stays. */
static void save(const double *piece, long begin, long mine, long cells, long steps, int rank)
{
	char to[4096], part[4096];
	struct head head = {steps, cells};
	MPI_File file;
	if (MPI_File_open(MPI_COMM_WORLD, path(part, "halo.part"), MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file) ||
	    MPI_File_write_at_all(file, 0, &head, rank == 0 ? sizeof(head) : 0, MPI_BYTE, MPI_STATUS_IGNORE) ||
	    MPI_File_write_at_all(file, sizeof(head) + begin * sizeof(double), piece, mine, MPI_DOUBLE, MPI_STATUS_IGNORE) ||
	    MPI_File_sync(file) || MPI_File_close(&file))
		failed("writing the checkpoint");
	if (rank != 0)
		return;
	const char *told = getenv("FLUX_MINICLUSTER_CHECKPOINT_WRITTEN");
	FILE *marker;
	if (rename(part, path(to, "halo")) || (told && (!(marker = fopen(told, "w")) || fclose(marker))))
		failed("writing the checkpoint");
	printf("halo: checkpoint at step %ld\n", steps);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	int rank, size;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	long steps = argc > 1 ? atol(argv[1]) : 1000;
	long cells = argc > 2 ? atol(argv[2]) : 100000;
	long pause = argc > 3 ? atol(argv[3]) : 0;
	const char *gate = getenv("HALO_GATE");
	char to[4096];
	int saves = *path(to, "halo") != 0;

	/* The number of hosts is the number of ranks that are the first one on their host. */
	MPI_Comm host;
	MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host);
	int local, hosts;
	MPI_Comm_rank(host, &local);
	int first = local == 0;
	MPI_Allreduce(&first, &hosts, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);

	long begin = cells * rank / size, end = cells * (rank + 1) / size, mine = end - begin;
	double *now = calloc(mine + 2, sizeof(double)), *next = calloc(mine + 2, sizeof(double));
	if (!now || !next)
		MPI_Abort(MPI_COMM_WORLD, 1);
	const double wave = 2 * M_PI / cells, rate = 0.25;
	for (long i = 0; i < mine; i++)
		now[i + 1] = sin(wave * (begin + i));
	signal(SIGUSR1, ask);
	long step = load(now + 1, begin, mine, cells);
	if (rank == 0 && saves) {
		printf("halo: goes on with step %ld, with %d ranks on %d hosts\n", step, size, hosts);
		fflush(stdout);
	}

	int left = (rank + size - 1) % size, right = (rank + 1) % size;
	double started = MPI_Wtime();
	while (step < steps) {
		if (pause > 0)
			usleep(1000 * pause);
		if (saves || gate) {
			/* All ranks have to agree on what they do before the next step. */
			int wants[2] = {asked, gate && step == steps - 1 && access(gate, F_OK)}, all[2];
			MPI_Allreduce(wants, all, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
			if (all[0]) {
				asked = 0;
				save(now + 1, begin, mine, cells, step, rank);
			}
			if (all[1])
				continue;
		}
		MPI_Sendrecv(&now[1], 1, MPI_DOUBLE, left, 0, &now[mine + 1], 1, MPI_DOUBLE, right, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		MPI_Sendrecv(&now[mine], 1, MPI_DOUBLE, right, 1, &now[0], 1, MPI_DOUBLE, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		for (long i = 1; i <= mine; i++)
			next[i] = now[i] + rate * (now[i - 1] - 2 * now[i] + now[i + 1]);
		double *other = now;
		now = next;
		next = other;
		step++;
	}

	double fade = pow(1 - 4 * rate * pow(sin(wave / 2), 2), steps), worst = 0, error;
	uint64_t bits, sum = 0, checksum;
	for (long i = 0; i < mine; i++) {
		worst = fmax(worst, fabs(now[i + 1] - fade * sin(wave * (begin + i))));
		memcpy(&bits, &now[i + 1], sizeof(bits));
		sum += bits * (2 * (uint64_t)(begin + i) + 1);
	}
	MPI_Allreduce(&worst, &error, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	MPI_Allreduce(&sum, &checksum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
	int right_result = error < 1e-9;
	if (rank == 0)
		printf("halo: %d ranks on %d hosts, %ld steps of %ld cells in %.2f s, error %.1e, checksum %016llx: %s\n", size, hosts, steps, cells,
		       MPI_Wtime() - started, error, (unsigned long long)checksum, right_result ? "right" : "WRONG");
	free(now);
	free(next);
	part();
	MPI_Finalize();
	return right_result ? 0 : 1;
}
