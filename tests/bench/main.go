package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"time"
)

func main() {
	bin := flag.String("bin", "bin", "folder of rbd-target and rbd-initiator")
	rounds := flag.Int("rounds", 5, "how often each workload is run on each disk")
	runtime := flag.Duration("runtime", 1500*time.Millisecond, "time of one run")
	only := flag.String("only", "", "regular expression: run these rows only")
	floor := flag.Bool("floor", false, "fail when a ratio is below its floor")
	peer := flag.Bool("peer", false, "be the other process of the comparison with TCP")
	flag.Parse()
	work := func() error { return errors.Join(run(*bin, *rounds, *runtime, *only, *floor), provider(*rounds)) }
	if *peer {
		work = servePeer
	}
	if err := work(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(bin string, rounds int, runtime time.Duration, only string, floor bool) error {
	rows, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	dir, err := os.MkdirTemp("", "rbd-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s := &servers{dir: dir}
	defer s.stop()
	uris := make([]string, 3)
	for i, start := range []func() (string, error){func() (string, error) { return s.ours(bin) }, s.twoHops, s.oneHop} {
		if uris[i], err = start(); err != nil {
			return err
		}
	}
	fmt.Println("| workload | ours | p50 / p99 | nbdkit, two hops | ratio | nbdkit, one hop | ratio |")
	fmt.Println("|---|---:|---:|---:|---:|---:|---:|")
	var low []error
	for _, w := range workloads {
		if !rows.MatchString(w.Name) {
			continue
		}
		samples := make([][]sample, len(uris))
		for range rounds {
			for i, uri := range uris {
				one, err := runFio(dir, uri, w, runtime)
				if err != nil {
					return err
				}
				samples[i] = append(samples[i], one)
			}
		}
		ours, two, one := median(samples[0]), median(samples[1]), median(samples[2])
		r2, r1 := ours.IOPS/two.IOPS, ours.IOPS/one.IOPS
		fmt.Printf("| %s | %s | %.0f / %.0f µs | %s | **%.2f** | %s | %.2f |\n", w.Name, speed(ours, w), ours.P50us, ours.P99us, speed(two, w), r2, speed(one, w), r1)
		if r2 < w.Floor2 || r1 < w.Floor1 {
			low = append(low, fmt.Errorf("%s: ratios %.2f and %.2f, floors %.2f and %.2f", w.Name, r2, r1, w.Floor2, w.Floor1))
		}
	}
	if floor {
		return errors.Join(low...)
	}
	return nil
}

// median is the run whose IOPS are in the middle.
func median(s []sample) sample {
	s = slices.Clone(s)
	slices.SortFunc(s, func(a, b sample) int {
		switch {
		case a.IOPS < b.IOPS:
			return -1
		case a.IOPS > b.IOPS:
			return 1
		}
		return 0
	})
	return s[len(s)/2]
}

// speed is the figure that people quote: IOPS for small blocks, MiB/s for large.
func speed(s sample, w workload) string {
	if w.BS == "4k" {
		return fmt.Sprintf("%.1f k", s.IOPS/1000)
	}
	return fmt.Sprintf("%.0f MiB/s", s.MiBps)
}
