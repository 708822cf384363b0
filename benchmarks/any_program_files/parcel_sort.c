// limit: thread,process | route|measure
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct parcel {
  long type;
  char address[200];
  int lane;
};
#define SIZE (sizeof(struct parcel) - sizeof(long))

static int distance(const char* a, const char* b) {
  int n = (int)strlen(a), m = (int)strlen(b), row[256];
  for (int j = 0; j <= m; j++) row[j] = j;
  for (int i = 1; i <= n; i++) {
    int diag = row[0];
    row[0] = i;
    for (int j = 1; j <= m; j++) {
      int up = row[j], best = diag + (a[i - 1] != b[j - 1]);
      if (up + 1 < best) best = up + 1;
      if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
      diag = up;
      row[j] = best;
    }
  }
  return row[m];
}

static void route(int in, int out) {
  static const char* depots[] = {"Harbour Street 17, Northfield, Sector 9 east gate",
                                 "Mill Lane 4, Southwick, yard behind the old mill",
                                 "Station Road 230, Westbridge, platform side entrance",
                                 "Quarry Hill 1, Easton, upper loading bay",
                                 "Orchard Row 88, Northfield, behind the cold store",
                                 "Canal Walk 3, Southwick, lock keeper's ramp",
                                 "Viaduct Road 61, Westbridge, under the third arch",
                                 "Chapel Street 9, Easton, ring the brass bell",
                                 "Airfield Way 400, Northfield, hangar two, west door",
                                 "Saltworks 2, Southwick, weigh first at the gate",
                                 "Market Square 15, Westbridge, cellar entrance only",
                                 "Beacon Lane 7, Easton, turn at the water tower"};
  struct parcel p;
  prctl(PR_SET_NAME, "route");
  while (msgrcv(in, &p, SIZE, 0, 0) >= 0) {
    int best = 1 << 30;
    for (int i = 0; i < 12 && p.lane >= 0; i++) {
      int d = distance(p.address, depots[i]);
      if (d < best) best = d, p.lane = i % 4;
    }
    msgsnd(out, &p, SIZE, 0);
    if (p.lane < 0) break;
  }
  _exit(0);
}

static void load_vans(int in) {
  long lane[4] = {0};
  struct parcel p;
  prctl(PR_SET_NAME, "vans");
  while (msgrcv(in, &p, SIZE, 0, 0) >= 0 && p.lane >= 0) lane[p.lane]++;
  printf("lanes %ld %ld %ld %ld\n", lane[0], lane[1], lane[2], lane[3]);
  fflush(stdout);
  _exit(0);
}

int main(int argc, char** argv) {
  double seconds = argc > 1 ? atof(argv[argc - 1]) : 6;
  int scanned = msgget(IPC_PRIVATE, 0600), routed = msgget(IPC_PRIVATE, 0600);
  if (!fork()) route(scanned, routed);
  if (!fork()) load_vans(routed);
  struct timespec a, b;
  clock_gettime(CLOCK_MONOTONIC, &a);
  struct parcel p = {.type = 1};
  for (unsigned n = 0;; n++) {
    snprintf(p.address, sizeof p.address, "%s %u, %s, parcel of %u grams, leave at the side door",
             n % 3 ? "Mill Lane" : "Harbour Street", n % 300, n % 2 ? "Easton" : "Westbridge", n * 37 % 9000);
    p.lane = 0;
    clock_gettime(CLOCK_MONOTONIC, &b);
    if (b.tv_sec - a.tv_sec + (b.tv_nsec - a.tv_nsec) * 1e-9 > seconds) p.lane = -1;
    msgsnd(scanned, &p, SIZE, 0);
    if (p.lane < 0) break;
  }
  while (wait(NULL) > 0) {
  }
  msgctl(scanned, IPC_RMID, 0);
  msgctl(routed, IPC_RMID, 0);
}
