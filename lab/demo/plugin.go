package demo

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"purelb.io/purelb/lab/internal/build"
)

// plugin is the path of the plugin below the root of the tree.
const plugin = "bin/kubectl-purelb"

// explain builds the kubectl plugin from the tree at root. It prints the plugin's output about the
// cluster and about one Service.
func (d demo) explain(ctx context.Context, root string) error {
	program := filepath.Join(root, plugin)
	if err := build.Program(ctx, root, "./cmd/kubectl-purelb", program); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"status", "--wait", "--timeout", "1m"},
		{"explain", "service", namespace + "/" + services[0].name},
	} {
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+d.Kubeconfig())
		cmd.Stdout, cmd.Stderr = d.out, d.out
		fmt.Fprintf(d.out, "\n$ kubectl purelb")
		for _, a := range args {
			fmt.Fprintf(d.out, " %s", a)
		}
		fmt.Fprintln(d.out)
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("kubectl purelb %s: %w", args[0], err)
		}
	}
	return nil
}
