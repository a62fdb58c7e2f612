/* A program for Windows that memledger run takes for one with the tracker: it has the section of such a program.

       has_tracker TRACE STATUS     copies the trace to where its own would be, and ends with the status
       has_tracker TRACE wait       copies it, says so, and waits for Ctrl-C */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

__attribute__((section(".memlgr"), used)) static const char note[16] = "memledger";

int main(int argc, char **argv) {
    char pattern[1024] = "", path[1024];
    GetEnvironmentVariableA("MEMLEDGER_TRACE", pattern, sizeof pattern);
    char *number = strstr(pattern, "%p");
    if (argc != 3 || !number) return 98;
    *number = 0;
    snprintf(path, sizeof path, "%s%lu%s", pattern, GetCurrentProcessId(), number + 2);
    if (!CopyFileA(argv[1], path, FALSE)) return 99;
    if (strcmp(argv[2], "wait")) ExitProcess(strtoul(argv[2], NULL, 0));
    puts("waiting");
    fflush(stdout);
    Sleep(20000);
    return 97;
}
