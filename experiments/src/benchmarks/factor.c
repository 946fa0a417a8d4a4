/* Factors a symmetric positive definite matrix twice by LAPACK's dpotrf, or by ScaLAPACK's pdpotrf if it is compiled with
 * -DSCALAPACK, and prints the seconds of the second time. Arguments: the rows of the matrix, and of a block. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#ifdef SCALAPACK
#include <mpi.h>
void Cblacs_pinfo(int *, int *);
void Cblacs_get(int, int, int *);
void Cblacs_gridinit(int *, char *, int, int);
void Cblacs_gridinfo(int, int *, int *, int *, int *);
int numroc_(int *, int *, int *, int *, int *);
void descinit_(int *, int *, int *, int *, int *, int *, int *, int *, int *, int *);
void pdpotrf_(char *, int *, double *, int *, int *, int *, int *);
#else
void dpotrf_(char *, int *, double *, int *, int *);
#endif

static double value(int n, int i, int j) {
    return i == j ? n : 1.0 / (1 + abs(i - j));
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 0, info = 0;
    int rank = 0, rows = n, columns = n, block = argc > 2 ? atoi(argv[2]) : 0, row = 0, column = 0, down = 1, across = 1;
    if (n < 1 || block < 1) {
        return 2;
    }
#ifdef SCALAPACK
    int ranks, grid, zero = 0, one = 1, described[9];
    Cblacs_pinfo(&rank, &ranks);
    Cblacs_get(-1, 0, &grid);
    across = ranks;
    Cblacs_gridinit(&grid, "Row", down, across);
    Cblacs_gridinfo(grid, &down, &across, &row, &column);
    rows = numroc_(&n, &block, &row, &zero, &down);
    columns = numroc_(&n, &block, &column, &zero, &across);
    descinit_(described, &n, &n, &block, &block, &zero, &zero, &grid, &rows, &info);
#endif
    double *a = malloc(sizeof(double) * rows * columns), seconds = 0;
    if (a == NULL || info != 0) {
        return 1;
    }
    for (int turn = 0; turn < 2; turn++) {
        for (int c = 0; c < columns; c++) {
            for (int r = 0; r < rows; r++) {
                int i = (r / block * down + row) * block + r % block, j = (c / block * across + column) * block + c % block;
                a[(size_t)c * rows + r] = value(n, i, j);
            }
        }
#ifdef SCALAPACK
        MPI_Barrier(MPI_COMM_WORLD);
        seconds = now();
        pdpotrf_("L", &n, a, &one, &one, described, &info);
        MPI_Barrier(MPI_COMM_WORLD);
#else
        seconds = now();
        dpotrf_("L", &n, a, &n, &info);
#endif
        seconds = now() - seconds;
        if (info != 0) {
            return 1;
        }
    }
    if (rank == 0) {
        printf("%.9f\n", seconds);
    }
#ifdef SCALAPACK
    MPI_Finalize();
#endif
    return 0;
}
