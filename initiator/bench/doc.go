// Package bench measures a namespace: operations per second, bandwidth and
// latency, with a fixed number of requests out at all times.
//
// # How it runs
//
//  1. Run divides the namespace into one stretch per worker, and the depth among
//     the workers. A worker is the owner of requests on one I/O queue.
//  2. Each worker submits its requests at once. When some come back it notes how
//     long they took, gives them their next ranges, and submits them again, all on
//     the goroutine that completed them: nothing is allocated and no goroutine is
//     switched to.
//  3. When the time is over, requests that come back are not submitted again. A
//     worker is done when the last has come.
//  4. With Config.Verify all blocks that were written are then read back and
//     compared.
//
// A worker's state belongs to whoever runs it: Run before it starts and after it
// is done, its queue's completions in between.
package bench
