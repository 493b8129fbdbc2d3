package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// sample is what one fio run measured, reads and writes added.
type sample struct {
	IOPS  float64
	MiBps float64
	P50us float64
	P99us float64
}

// runFio runs one workload on a disk. The result goes through a file in dir: on
// standard output fio's nbd engine adds a line of its own.
func runFio(dir, uri string, w workload, runtime time.Duration) (sample, error) {
	file := filepath.Join(dir, "fio.json")
	out, err := exec.Command("fio", "--name=bench", "--ioengine=nbd", "--uri="+uri, "--rw="+w.RW, "--bs="+w.BS, "--iodepth="+strconv.Itoa(w.Depth),
		"--size="+strconv.Itoa(diskMiB)+"M", "--time_based", "--ramp_time=300ms", "--runtime="+strconv.FormatInt(runtime.Milliseconds(), 10)+"ms",
		"--norandommap", "--randrepeat=0", "--output-format=json", "--output="+file).CombinedOutput()
	if err != nil {
		return sample{}, fmt.Errorf("fio on %s: %w: %s", uri, err, out)
	}
	if out, err = os.ReadFile(file); err != nil {
		return sample{}, fmt.Errorf("read fio's result: %w", err)
	}
	type side struct {
		IOPS  float64 `json:"iops"`
		BW    float64 `json:"bw_bytes"`
		CLatN struct {
			Percentile map[string]float64 `json:"percentile"`
		} `json:"clat_ns"`
	}
	var r struct {
		Jobs []struct {
			Error       int
			Read, Write side
		} `json:"jobs"`
	}
	if err := json.Unmarshal(out, &r); err != nil {
		return sample{}, fmt.Errorf("fio on %s: %w: %s", uri, err, out)
	}
	if len(r.Jobs) != 1 || r.Jobs[0].Error != 0 {
		return sample{}, fmt.Errorf("fio on %s: %s", uri, out)
	}
	s := sample{}
	for _, x := range []side{r.Jobs[0].Read, r.Jobs[0].Write} {
		s.IOPS += x.IOPS
		s.MiBps += x.BW / (1 << 20)
		if p := x.CLatN.Percentile; p != nil {
			s.P50us, s.P99us = p["50.000000"]/1000, p["99.000000"]/1000
		}
	}
	return s, nil
}
