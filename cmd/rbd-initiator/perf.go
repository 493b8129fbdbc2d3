package main

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"rbd/cmd/internal/command"
	"rbd/cmd/internal/fabric"
	"rbd/cmd/internal/size"
	"rbd/verbs/perf"
)

func perfCommand() *cli.Command {
	return &cli.Command{
		Name:  "perf",
		Usage: "measure a fabric against 'rbd-target perf', in the manner of ib_write_bw and ib_write_lat",
		Flags: append(command.OutputFlags(),
			&cli.StringSliceFlag{Name: "traddr", Aliases: []string{"a"}, Usage: "`HOST` of 'rbd-target perf': HOST, iwarp://HOST or rdma://HOST; twice with --compare"},
			&cli.StringFlag{Name: "trsvcid", Aliases: []string{"s"}, Value: perf.DefaultPort, Usage: "`PORT` of 'rbd-target perf'"},
			&cli.StringFlag{Name: "op", Value: perf.WriteBW.String(), Usage: "`TEST`: write_bw, read_bw, send_lat or write_lat"},
			&cli.StringSliceFlag{Name: "size", Usage: "`SIZE` of a message, at most 8M; repeatable", DefaultText: "64K for bandwidth, 2 bytes for latency"},
			&cli.BoolFlag{Name: "all", Aliases: []string{"A"}, Usage: "all sizes from 2 to 8M, each twice the one before"},
			&cli.IntFlag{Name: "iters", Aliases: []string{"n"}, Usage: "number of messages, `N`", DefaultText: "5000 for write_bw, else 1000"},
			&cli.StringFlag{Name: "duration", Aliases: []string{"D"}, Usage: "measure for a `TIME`, in seconds or such as 1m, instead of -n; the middle half counts"},
			&cli.IntSliceFlag{Name: "tx-depth", Usage: "`N` requests at a time, for bandwidth; twice with --compare", DefaultText: strconv.Itoa(perf.DefaultTxDepth)},
			&cli.BoolFlag{Name: "poll", Usage: "poll completions, on both sides: lower latency with adapters, one busy CPU each"},
			&cli.BoolFlag{Name: "compare", Usage: "measure two addresses, or two depths, in turn and print the ratio"},
			&cli.IntFlag{Name: "rounds", Value: 5, Usage: "`N` measurements of each, with --compare; the median counts"},
		),
		Action: runPerf,
	}
}

// perfPlan is what the command line asks for.
type perfPlan struct {
	sides  []perf.Side // two to compare, else one; the sizes are filled in later
	sizes  []int
	rounds int
}

func parsePerf(c *cli.Context) (p perfPlan, err error) {
	cfg := perf.Config{Iterations: c.Int("iters"), Poll: c.Bool("poll")}
	if cfg.Op, err = perf.ParseOp(c.String("op")); err != nil {
		return p, command.Usagef("perf: --op: %v", err)
	}
	if c.IsSet("iters") && cfg.Iterations == 0 {
		return p, command.Usagef("perf: 0 iterations measure nothing")
	}
	if cfg.Duration, err = parseDuration(c.String("duration")); err != nil {
		return p, err
	}
	if p.sizes, err = parseSizes(c, cfg.Op); err != nil {
		return p, err
	}
	if p.sides, err = parseSides(c, cfg); err != nil {
		return p, err
	}
	if p.rounds = c.Int("rounds"); p.rounds < 1 || p.rounds > 1000 {
		return p, command.Usagef("perf: --rounds %d is not from 1 to 1000", p.rounds)
	}
	for _, s := range p.sides {
		for _, s.Config.Size = range p.sizes {
			if err := s.Config.Check(); err != nil {
				return p, command.Usagef("perf: %v", err)
			}
		}
	}
	return p, nil
}

// parseDuration reads seconds, as perftest does, or a time with its unit.
func parseDuration(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := parseTime(text)
	if err != nil || d < 100*time.Millisecond || d > perf.MaxDuration {
		return 0, command.Usagef("perf: --duration %q is not a time from 0.1 seconds to %v", text, perf.MaxDuration)
	}
	return d, nil
}

// parseTime reads a number of seconds, or a time with its unit.
func parseTime(text string) (time.Duration, error) {
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		text = strconv.FormatFloat(seconds, 'f', -1, 64) + "s" // so that what is too much is an error
	}
	return time.ParseDuration(text)
}

func parseSizes(c *cli.Context, op perf.Op) (sizes []int, err error) {
	texts := c.StringSlice("size")
	if c.Bool("all") {
		if len(texts) > 0 {
			return nil, command.Usagef("perf: --all and --size exclude each other")
		}
		for n := 2; n <= perf.MaxSize; n *= 2 {
			sizes = append(sizes, n)
		}
		return sizes, nil
	}
	for _, text := range texts {
		n, err := size.Parse(text)
		if err != nil {
			return nil, command.Usagef("perf: --size: %v", err)
		}
		sizes = append(sizes, int(min(n, perf.MaxSize+1)))
	}
	if len(sizes) == 0 {
		sizes = []int{op.DefaultSize()}
	}
	return sizes, nil
}

// parseSides combines addresses and depths: one of each, or with --compare two of
// at least one of them.
func parseSides(c *cli.Context, cfg perf.Config) ([]perf.Side, error) {
	addrs, depths := c.StringSlice("traddr"), c.IntSlice("tx-depth")
	sides := 1
	if c.Bool("compare") {
		sides = 2
	}
	switch n := max(len(addrs), len(depths)); {
	case len(addrs) == 0:
		return nil, command.Usagef("perf: --traddr is needed")
	case n < sides:
		return nil, command.Usagef("perf: --compare needs two --traddr, or two --tx-depth")
	case n > sides && sides == 1:
		return nil, command.Usagef("perf: two addresses or depths go with --compare")
	case n > sides:
		return nil, command.Usagef("perf: --compare compares two, not %d", n)
	case len(depths) > 0 && cfg.Op.Latency():
		return nil, command.Usagef("perf: --tx-depth goes with bandwidth, not with %s", cfg.Op)
	}
	list := make([]perf.Side, sides)
	fabrics := fabric.New()
	for i := range list {
		s := &list[i]
		s.Config = cfg
		if len(depths) > 0 {
			if s.Config.TxDepth = depths[min(i, len(depths)-1)]; s.Config.TxDepth == 0 {
				return nil, command.Usagef("perf: a depth of 0 measures nothing")
			}
		}
		var err error
		if s.Addr, err = parseTarget(c, addrs[min(i, len(addrs)-1)]); err != nil {
			return nil, err
		}
		if s.Provider, err = fabrics.Provider(s.Addr); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func runPerf(c *cli.Context) error {
	asJSON, err := command.JSON(c)
	if err != nil {
		return err
	}
	plan, err := parsePerf(c)
	if err != nil {
		return err
	}
	var out perfPrinter = &perfTable{w: c.App.Writer}
	if asJSON {
		out = &perfDocument{w: c.App.Writer}
	}
	begin := sync.OnceFunc(func() { out.begin(&plan) })
	if asJSON {
		begin()
	}
	for i := range plan.sides {
		plan.sides[i].Config.Connected = begin // no table before there is something to measure
	}
	for _, n := range plan.sizes {
		if err = plan.measure(c.Context, n, out); err != nil {
			break
		}
	}
	if errors.Is(err, context.Canceled) && c.Context.Err() != nil {
		err = nil // interrupted: what was measured so far is the result
	}
	return errors.Join(err, out.end())
}

// measure measures one size, and prints what there is of it.
func (p *perfPlan) measure(ctx context.Context, size int, out perfPrinter) error {
	for i := range p.sides {
		p.sides[i].Config.Size = size
	}
	if len(p.sides) == 2 {
		r, err := perf.Compare(ctx, [2]perf.Side(p.sides), p.rounds)
		if r.Rounds > 0 {
			out.comparison(&r)
		}
		return err
	}
	s := &p.sides[0]
	r, err := perf.Run(ctx, s.Provider, s.Addr, s.Config)
	if r.Iterations > 0 {
		out.result(&r)
	}
	return err
}
