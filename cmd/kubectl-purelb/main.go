// Command kubectl-purelb is a plugin for kubectl. It shows which addresses Services have and why,
// what is wrong with the configuration, and whether PureLB works. It reads a cluster or files. Only
// "adopt", "leave", "move", "rebalance" and "ipam release-orphans --confirm" change something.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)   // A second Ctrl-C ends the process at once.
	klog.SetLogger(logr.Discard()) // What matters is in the answers.
	ctrllog.SetLogger(logr.Discard())
	os.Exit(run(ctx, arguments(os.Args), os.Stdin, os.Stdout, os.Stderr))
}

// completer is the name of the program that kubectl runs to complete the arguments of the plugin.
// A link with that name to this program is enough.
const completer = "kubectl_complete-purelb"

// arguments returns the arguments of the root command, from the name and arguments of the process.
func arguments(called []string) []string {
	name := strings.TrimSuffix(filepath.Base(called[0]), ".exe")
	if name == completer {
		return append([]string{cobra.ShellCompRequestCmd}, called[1:]...)
	}
	return called[1:]
}

// The codes to exit with.
const (
	exitFine     = 0
	exitProblems = 1 // The command has an answer, which shows problems.
	exitFailed   = 2 // The command has no answer.
)

// errProblems means that the answer shows problems. The answer has been printed.
var errProblems = errors.New("there are problems")

// run runs one command, and returns the exit code.
func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	o := &options{in: in, out: out, errs: errs}
	root := newRoot(o)
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	switch err := root.ExecuteContext(ctx); {
	case err == nil:
		return exitFine
	case errors.Is(err, errProblems):
		return exitProblems
	default:
		fmt.Fprintln(errs, "error:", err)
		return exitFailed
	}
}
