package main

import (
	"fmt"
	"io"
	"time"

	"rbd/cmd/internal/command"
	"rbd/verbs/perf"
)

// perfPrinter prints the results of perf as they come.
type perfPrinter interface {
	begin(*perfPlan)
	result(*perf.Result)
	comparison(*perf.Comparison)
	// end is called once; it returns the first error of printing.
	end() error
}

// The columns of perftest: those who read its output with a program find the same
// figures in the same places.
const (
	perfHeadBW  = " #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]    MsgRate[Mpps]"
	perfRowBW   = " %-10d %-14d %-19.2f %-22.2f %-.6f"
	perfHeadLat = " #bytes     #iterations    t_min[usec]    t_max[usec]    t_typical[usec]    t_avg[usec]    t_stdev[usec]    99% percentile[usec]    99.9% percentile[usec]"
	perfRowLat  = " %-10d %-14d %-14.2f %-14.2f %-18.2f %-14.2f %-16.2f %-23.2f %-.2f"
)

// perfTable prints perftest's tables.
type perfTable struct {
	w   io.Writer
	err error
}

func (t *perfTable) line(format string, args ...any) {
	if t.err != nil {
		return
	}
	if _, err := fmt.Fprintf(t.w, format+"\n", args...); err != nil {
		t.err = fmt.Errorf("write the result: %w", err)
	}
}

func (t *perfTable) begin(p *perfPlan) {
	for i, s := range p.sides {
		name := s.Config.Op.String()
		if len(p.sides) == 2 {
			name = [...]string{"first ", "second"}[i]
		}
		setting := ""
		if !s.Config.Op.Latency() {
			setting = fmt.Sprintf(", tx-depth %d", depthOf(&s.Config))
		}
		t.line("%s  %s%s", name, s.Addr, setting)
	}
	if len(p.sides) == 2 {
		t.line("%s, medians of %d rounds", p.sides[0].Config.Op, p.rounds)
	}
	if p.sides[0].Config.Op.Latency() {
		t.line("%s", perfHeadLat)
	} else {
		t.line("%s", perfHeadBW)
	}
}

func (t *perfTable) result(r *perf.Result) {
	if r.Op.Latency() {
		l := &r.Latency
		t.line(perfRowLat, r.Size, r.Iterations, usec(l.Min), usec(l.Max), usec(l.Typical), usec(l.Avg), usec(l.Stdev), usec(l.P99), usec(l.P999))
		return
	}
	t.line(perfRowBW, r.Size, r.Iterations, r.Bandwidth.Peak, r.Bandwidth.Average, r.Bandwidth.MsgRate)
}

func (t *perfTable) comparison(c *perf.Comparison) {
	t.result(&c.Results[0])
	t.result(&c.Results[1])
	t.line(" %-10d %s, first to second: %.2f", c.Results[0].Size, perfFigure(c.Results[0].Op), c.Ratio)
}

func (t *perfTable) end() error { return t.err }

// perfFigure names what is compared.
func perfFigure(op perf.Op) string {
	if op.Latency() {
		return "t_typical"
	}
	return "BW average"
}

func usec(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

func depthOf(c *perf.Config) int {
	if c.TxDepth == 0 {
		return perf.DefaultTxDepth
	}
	return c.TxDepth
}

// perfDocument collects the results and prints them as JSON in the end, with the
// names of perftest's JSON.
type perfDocument struct {
	w   io.Writer
	doc struct {
		Op          string           `json:"op"`
		Sides       []perfSide       `json:"sides"`
		Poll        bool             `json:"poll"`
		Rounds      int              `json:"rounds,omitempty"`
		Results     []any            `json:"results,omitempty"`
		Comparisons []perfComparison `json:"comparisons,omitempty"`
	}
}

type perfSide struct {
	Address string `json:"address"`
	TxDepth int    `json:"TX_depth,omitempty"`
}

type perfBWRow struct {
	Size       int     `json:"MsgSize"`
	Iterations int     `json:"n_iterations"`
	Peak       float64 `json:"BW_peak"`
	Average    float64 `json:"BW_average"`
	MsgRate    float64 `json:"MsgRate"`
}

type perfLatRow struct {
	Size       int     `json:"MsgSize"`
	Iterations int     `json:"n_iterations"`
	Min        float64 `json:"t_min"`
	Max        float64 `json:"t_max"`
	Typical    float64 `json:"t_typical"`
	Avg        float64 `json:"t_avg"`
	Stdev      float64 `json:"t_stdev"`
	P99        float64 `json:"percentile_99"`
	P999       float64 `json:"percentile_99.9"`
}

type perfComparison struct {
	Rounds int     `json:"rounds"`
	First  any     `json:"first"`
	Second any     `json:"second"`
	Ratio  float64 `json:"ratio"`
}

func (d *perfDocument) begin(p *perfPlan) {
	d.doc.Op, d.doc.Poll = p.sides[0].Config.Op.String(), p.sides[0].Config.Poll
	for _, s := range p.sides {
		side := perfSide{Address: s.Addr.String()}
		if !s.Config.Op.Latency() {
			side.TxDepth = depthOf(&s.Config)
		}
		d.doc.Sides = append(d.doc.Sides, side)
	}
	if len(p.sides) == 2 {
		d.doc.Rounds = p.rounds
	}
}

func perfRow(r *perf.Result) any {
	if r.Op.Latency() {
		l := &r.Latency
		return perfLatRow{r.Size, r.Iterations, usec(l.Min), usec(l.Max), usec(l.Typical), usec(l.Avg), usec(l.Stdev), usec(l.P99), usec(l.P999)}
	}
	return perfBWRow{r.Size, r.Iterations, r.Bandwidth.Peak, r.Bandwidth.Average, r.Bandwidth.MsgRate}
}

func (d *perfDocument) result(r *perf.Result) { d.doc.Results = append(d.doc.Results, perfRow(r)) }

func (d *perfDocument) comparison(c *perf.Comparison) {
	d.doc.Comparisons = append(d.doc.Comparisons, perfComparison{c.Rounds, perfRow(&c.Results[0]), perfRow(&c.Results[1]), c.Ratio})
}

func (d *perfDocument) end() error { return command.PrintJSON(d.w, &d.doc, false) }
