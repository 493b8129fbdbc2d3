package main

// workload is one row of the table. Floor2 and Floor1 are the least acceptable
// ratios to the two-hop and the one-hop nbdkit; 0 means none is promised.
type workload struct {
	Name   string
	RW     string
	BS     string
	Depth  int
	Floor2 float64
	Floor1 float64
}

var workloads = []workload{
	{"4 KiB random read, depth 1", "randread", "4k", 1, 1.2, 0},
	{"4 KiB random write, depth 1", "randwrite", "4k", 1, 1.2, 0},
	{"4 KiB random read, depth 32", "randread", "4k", 32, 2.5, 1},
	{"4 KiB random write, depth 32", "randwrite", "4k", 32, 2.0, 1},
	{"128 KiB sequential read, depth 8", "read", "128k", 8, 1, 0},
	{"128 KiB sequential write, depth 8", "write", "128k", 8, 1, 0},
	{"1 MiB sequential read, depth 4", "read", "1m", 4, 1, 0},
	{"1 MiB sequential write, depth 4", "write", "1m", 4, 1, 0},
}
