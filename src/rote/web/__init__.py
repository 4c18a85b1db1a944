"""The local explorer: a small server on the loopback interface, and pages that ask it.

    server      the socket, the browser, the end of it all
    connections deadlines and limits of every connection
    app         routes; guard and assets stand in front of them and beside them
    desk        where questions wait, for a moment, in few places
    capacity, theorems, runs, figures      what the pages ask, answered by the library
    store, jobs, pool, worker, tasks       uploads and builds: folders, the queue, the processes that do the work
    scan        what lies in the folder that was named by --dir

Nothing here computes what the library does not: every answer comes from a function that the command line calls too.
"""
