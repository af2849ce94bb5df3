package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"purelb.io/purelb/lab/cluster"
	"purelb.io/purelb/lab/demo"
	"purelb.io/purelb/lab/internal/lifecycle"
	"purelb.io/purelb/lab/internal/state"
	"purelb.io/purelb/lab/product"
)

func init() {
	commands = append(commands,
		command{"install", "[CHART-VALUE=...]", "build PureLB from this tree and install it into the cluster that is up", install},
		command{"before", "", "print the commit that the tests upgrade from; fails if git cannot fetch it", before},
		command{"demo", "", "bring the cluster up, install PureLB, and reach its Services from outside", runDemo})
}

func install(ctx context.Context, values []string) error {
	c, err := cluster.Open()
	if err != nil {
		return err
	}
	tree, err := product.FindTree(".", os.Stdout)
	if err != nil {
		return err
	}
	return tree.Install(ctx, c, c.Kubeconfig(), append(slices.Clone(c.World().Values), values...)...)
}

func before(ctx context.Context, _ []string) error {
	tree, err := product.FindTree(".", os.Stderr)
	if err != nil {
		return err
	}
	commit, err := tree.Before(ctx)
	if err != nil {
		return errors.New(err.Error()) // main prints no exec.ExitError
	}
	fmt.Println(commit)
	return nil
}

func runDemo(ctx context.Context, _ []string) error {
	if err := lifecycle.Up(ctx, state.Default(), lifecycle.Options{Nodes: 4, Out: os.Stdout}); err != nil {
		return err
	}
	c, err := cluster.Open()
	if err != nil {
		return err
	}
	tree, err := product.FindTree(".", os.Stdout)
	if err != nil {
		return err
	}
	return demo.Run(ctx, c, tree, os.Stdout)
}
