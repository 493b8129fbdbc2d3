// Command vmshell gives a shell in the virtual machine of the whole-system tests:
// the kernel with siw, the host's files, our programs, and the scenarios.
//
//	go run ./tests/vm/cmd/vmshell
//
// "exit" powers the machine off; Ctrl-A X kills it.
package main

import (
	"context"
	"fmt"
	"os"

	"rbd/tests/vm"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "vmshell:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "rbd-vmshell-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	lab, err := vm.NewLab(ctx, dir, func(format string, args ...any) { fmt.Printf(format+"\n", args...) })
	if err != nil {
		return err
	}
	return lab.Interactive(ctx, vm.MachineConfig{Name: "shell"})
}
