/*
 * Copyright The flux-elastic Authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * Halo simulates how heat spreads on a ring of cells. Each rank has one piece of the ring, and
 * sends its outermost cells to its neighbours in every step. A sine wave keeps its form and
 * fades at a known rate, so the right result is known.
 *
 *     halo [STEPS [CELLS]]
 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
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

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	int rank, size;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	long steps = argc > 1 ? atol(argv[1]) : 1000;
	long cells = argc > 2 ? atol(argv[2]) : 100000;

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

	int left = (rank + size - 1) % size, right = (rank + 1) % size;
	double started = MPI_Wtime();
	for (long step = 0; step < steps; step++) {
		MPI_Sendrecv(&now[1], 1, MPI_DOUBLE, left, 0, &now[mine + 1], 1, MPI_DOUBLE, right, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		MPI_Sendrecv(&now[mine], 1, MPI_DOUBLE, right, 1, &now[0], 1, MPI_DOUBLE, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		for (long i = 1; i <= mine; i++)
			next[i] = now[i] + rate * (now[i - 1] - 2 * now[i] + now[i + 1]);
		double *other = now;
		now = next;
		next = other;
	}

	double fade = pow(1 - 4 * rate * pow(sin(wave / 2), 2), steps), worst = 0, error;
	for (long i = 0; i < mine; i++)
		worst = fmax(worst, fabs(now[i + 1] - fade * sin(wave * (begin + i))));
	MPI_Allreduce(&worst, &error, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	int right_result = error < 1e-9;
	if (rank == 0)
		printf("halo: %d ranks on %d hosts, %ld steps of %ld cells in %.2f s, error %.1e: %s\n", size, hosts, steps, cells, MPI_Wtime() - started, error,
		       right_result ? "right" : "WRONG");
	free(now);
	free(next);
	part();
	MPI_Finalize();
	return right_result ? 0 : 1;
}
