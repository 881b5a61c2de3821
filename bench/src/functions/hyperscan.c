/* Scans payloads for contents with Hyperscan: for each line that comes in, all payloads once, and a line with the
 * nanoseconds of processor time that it took and the matches that were found. Both files hold records of a length (4
 * bytes, little-endian) and bytes. */
#include <hs/hs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct records {
    char **bytes;
    size_t *lengths;
    unsigned count;
};

static void fail(const char *what) {
    fprintf(stderr, "hyperscan: %s\n", what);
    exit(1);
}

static void *must(void *memory) {
    if (!memory) fail("no memory");
    return memory;
}

static struct records read_records(const char *path) {
    struct records all = {0};
    unsigned char head[4];
    FILE *file = fopen(path, "rb");
    if (!file) fail(path);
    while (fread(head, 1, sizeof head, file) == sizeof head) {
        size_t length = head[0] | head[1] << 8 | head[2] << 16 | (size_t)head[3] << 24;
        all.bytes = must(realloc(all.bytes, (all.count + 1) * sizeof *all.bytes));
        all.lengths = must(realloc(all.lengths, (all.count + 1) * sizeof *all.lengths));
        all.bytes[all.count] = must(malloc(length + 1));
        if (fread(all.bytes[all.count], 1, length, file) != length) fail("a record is cut");
        all.lengths[all.count++] = length;
    }
    fclose(file);
    return all;
}

static int count(unsigned id, unsigned long long from, unsigned long long to, unsigned flags, void *matches) {
    (void)id, (void)from, (void)to, (void)flags;
    ++*(unsigned long *)matches;
    return 0;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

int main(int argc, char **argv) {
    if (argc != 3) fail("give contents and payloads");
    struct records contents = read_records(argv[1]), payloads = read_records(argv[2]);
    unsigned *flags = must(calloc(contents.count, sizeof *flags)), *ids = must(calloc(contents.count, sizeof *ids));
    for (unsigned at = 0; at < contents.count; at++) {
        flags[at] = HS_FLAG_CASELESS;
        ids[at] = at;
    }
    hs_database_t *database = NULL;
    hs_compile_error_t *error = NULL;
    if (hs_compile_lit_multi((const char *const *)contents.bytes, flags, ids, contents.lengths, contents.count,
                             HS_MODE_BLOCK, NULL, &database, &error) != HS_SUCCESS)
        fail(error ? error->message : "the contents do not compile");
    hs_scratch_t *scratch = NULL;
    if (hs_alloc_scratch(database, &scratch) != HS_SUCCESS) fail("no scratch");
    printf("ready %s\n", hs_version());
    fflush(stdout);
    for (char line[64]; fgets(line, sizeof line, stdin);) {
        unsigned long matches = 0;
        double began = now();
        for (unsigned at = 0; at < payloads.count; at++)
            if (hs_scan(database, payloads.bytes[at], payloads.lengths[at], 0, scratch, count, &matches) != HS_SUCCESS)
                fail("a scan failed");
        printf("%.0f %lu\n", now() - began, matches);
        fflush(stdout);
    }
    return 0;
}
