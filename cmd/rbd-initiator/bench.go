package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"rbd/cmd/internal/command"
	"rbd/cmd/internal/size"
	"rbd/initiator"
	"rbd/initiator/bench"
)

func benchCommand() *cli.Command {
	return &cli.Command{
		Name:  "bench",
		Usage: "measure a namespace without a local disk in between; write modes overwrite it",
		Flags: append(controllerFlags(),
			&cli.StringFlag{Name: "rw", Value: "randread", Usage: "`MODE`: read, write, randread, randwrite or randrw"},
			&cli.StringFlag{Name: "bs", Value: "4K", Usage: "`SIZE` of a request"},
			&cli.IntFlag{Name: "iodepth", Value: 1, Usage: "`N` requests at a time"},
			&cli.StringFlag{Name: "runtime", Value: "10s", Usage: "measure for a `TIME`, in seconds or such as 1m"},
			&cli.StringFlag{Name: "size", Usage: "use only the first `SIZE` bytes", DefaultText: "all"},
			&cli.UintFlag{Name: "nsid", Usage: "namespace `ID`", DefaultText: "the lowest"},
			&cli.BoolFlag{Name: "verify", Usage: "read back what was written and compare it"},
		),
		Action: runBench,
	}
}

func parseBench(c *cli.Context) (cfg bench.Config, err error) {
	if cfg.Mode, err = bench.ParseMode(c.String("rw")); err != nil {
		return cfg, command.Usagef("bench: --rw: %v", err)
	}
	bs, err := size.Parse(c.String("bs"))
	if err != nil || bs == 0 || bs%512 != 0 || bs > 1<<30 {
		return cfg, command.Usagef("bench: --bs %q is not a multiple of 512", c.String("bs"))
	}
	if text := c.String("size"); text != "" {
		n, err := size.Parse(text)
		if err == nil && n == 0 {
			err = errors.New("0 bytes measure nothing")
		}
		if err != nil {
			return cfg, command.Usagef("bench: --size: %v", err)
		}
		cfg.Size = uint64(n)
	}
	if cfg.Runtime, err = parseTime(c.String("runtime")); err != nil || cfg.Runtime <= 0 || cfg.Runtime > maxSeconds*time.Second {
		return cfg, command.Usagef("bench: --runtime %q is not a time to run, in seconds or such as 1m", c.String("runtime"))
	}
	cfg.BlockSize, cfg.Depth = int(bs), c.Int("iodepth")
	cfg.Verify, cfg.Seed = c.Bool("verify"), uint64(time.Now().UnixNano())
	switch {
	case cfg.Depth < 1 || cfg.Depth > 4096:
		return cfg, command.Usagef("bench: --iodepth %d is not from 1 to 4096", cfg.Depth)
	case cfg.Verify && !cfg.Mode.Writes():
		return cfg, command.Usagef("bench: --verify goes with a mode that writes, not with %s", cfg.Mode)
	}
	return cfg, nil
}

func runBench(c *cli.Context) (err error) {
	asJSON, err := command.JSON(c)
	if err != nil {
		return err
	}
	cfg, err := parseBench(c)
	if err != nil {
		return err
	}
	e, err := parseEndpoint(c)
	if err != nil {
		return err
	}
	opts, err := parseOptions(c, e.host)
	if err != nil {
		return err
	}
	opts.BufferSize = max(64<<20, 2*cfg.BlockSize*cfg.Depth)
	ctrl, err := initiator.Connect(c.Context, e.provider, e.addr, opts)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), detachTime)
		defer cancel()
		err = errors.Join(err, ctrl.Close(ctx))
	}()
	nsid := uint32(c.Uint("nsid"))
	if !c.IsSet("nsid") {
		list := ctrl.Namespaces()
		if len(list) == 0 {
			return fmt.Errorf("%s at %s has no namespaces", ctrl.NQN(), ctrl.Addr())
		}
		nsid = list[0].NSID()
	}
	r, err := bench.Run(c.Context, ctrl, nsid, cfg)
	if errors.Is(err, context.Canceled) && r.Reads+r.Writes > 0 {
		err = nil // interrupted: what was measured so far is the result
	}
	if err != nil {
		return fmt.Errorf("bench namespace %d of %s: %w", nsid, ctrl.NQN(), err)
	}
	if asJSON {
		return command.PrintJSON(c.App.Writer, benchResult(&cfg, &r), false)
	}
	return printBench(c.App.Writer, &cfg, &r)
}

func printBench(w io.Writer, cfg *bench.Config, r *bench.Result) error {
	_, err := fmt.Fprintf(w, "%s, %s requests, %d at a time, %v\n%d reads, %d writes: %.0f IOPS, %.1f MiB/s\nlatency: min %v, p50 %v, p99 %v, p99.9 %v, max %v\n",
		cfg.Mode, size.String(int64(cfg.BlockSize)), cfg.Depth, r.Elapsed.Round(time.Millisecond), r.Reads, r.Writes, r.IOPS, r.MiBPerSecond,
		r.Latency.Min, r.Latency.P50, r.Latency.P99, r.Latency.P999, r.Latency.Max)
	switch why := notVerified(cfg, r); {
	case err != nil || !cfg.Verify:
	case why == "":
		_, err = fmt.Fprintf(w, "verified: %d blocks read back as they were written\n", r.Verified)
	default:
		_, err = fmt.Fprintln(w, "not verified: "+why)
	}
	if err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}

// notVerified is why what was to be verified was not, empty if it was.
func notVerified(cfg *bench.Config, r *bench.Result) string {
	if cfg.Verify && !r.VerifyDone {
		return "interrupted"
	}
	return ""
}

func benchResult(cfg *bench.Config, r *bench.Result) any {
	return struct {
		Mode      string  `json:"rw"`
		BlockSize int     `json:"bs"`
		Depth     int     `json:"iodepth"`
		Seconds   float64 `json:"runtime_s"`
		Reads     uint64  `json:"reads"`
		Writes    uint64  `json:"writes"`
		Bytes     uint64  `json:"bytes"`
		IOPS      float64 `json:"iops"`
		MiBps     float64 `json:"mib_per_s"`
		MinNs     int64   `json:"lat_min_ns"`
		P50Ns     int64   `json:"lat_p50_ns"`
		P99Ns     int64   `json:"lat_p99_ns"`
		P999Ns    int64   `json:"lat_p99_9_ns"`
		MaxNs     int64   `json:"lat_max_ns"`
		Verified  uint64  `json:"verified_blocks"`
		Unchecked string  `json:"not_verified,omitempty"` // why, where that was asked for
	}{cfg.Mode.String(), cfg.BlockSize, cfg.Depth, r.Elapsed.Seconds(), r.Reads, r.Writes, r.Bytes, r.IOPS, r.MiBPerSecond,
		r.Latency.Min.Nanoseconds(), r.Latency.P50.Nanoseconds(), r.Latency.P99.Nanoseconds(), r.Latency.P999.Nanoseconds(), r.Latency.Max.Nanoseconds(), r.Verified, notVerified(cfg, r)}
}
