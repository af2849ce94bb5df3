package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"purelb.io/purelb/lab/cluster"
	"purelb.io/purelb/lab/internal/forward"
	"purelb.io/purelb/lab/internal/image"
	"purelb.io/purelb/lab/internal/machine"
	"purelb.io/purelb/lab/internal/spec"
	"purelb.io/purelb/lab/internal/state"
)

// hidden are the commands that the lab itself runs.
var hidden = []command{
	{name: machine.EnterCommand, run: part(1, func(a []string) error { return machine.EnterMain(a[0]) })},
	{name: machine.InitCommand, run: part(1, func(a []string) error { return machine.InitMain(a[0]) })},
	{name: spec.RegistryCommand, run: part(2, serveRegistry)},
	{name: spec.ForwardCommand, run: part(1, serveForward)},
}

func part(args int, f func([]string) error) func(context.Context, []string) error {
	return func(_ context.Context, a []string) error {
		if len(a) != args {
			return errors.New("this command is for the lab itself")
		}
		return f(a)
	}
}

func serveRegistry(a []string) error {
	if err := os.MkdirAll(a[1], 0o755); err != nil {
		return err
	}
	return http.ListenAndServe(a[0], image.Registry(a[1]))
}

// serveForward uses the socket that the machine was started with.
func serveForward(a []string) error {
	l, err := net.FileListener(os.NewFile(3, "listener"))
	if err != nil {
		return err
	}
	return forward.Serve(l, a[0])
}

func crash(_ context.Context, args []string) error {
	return onMachine("crash", args, func(c *cluster.Cluster) error { return c.Crash(args[0]) })
}

func boot(ctx context.Context, args []string) error {
	return onMachine("boot", args, func(c *cluster.Cluster) error { return c.Boot(ctx, args[0]) })
}

func startProgram(ctx context.Context, args []string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return onMachine("start", args, func(c *cluster.Cluster) error { return c.Start(ctx, args[0], args[1]) })
}

func stopProgram(_ context.Context, args []string) error {
	return onMachine("stop", args, func(c *cluster.Cluster) error { return c.Signal(args[0], args[1], syscall.SIGKILL) })
}

// onMachine calls f if the number of arguments matches the usage.
func onMachine(name string, args []string, f func(*cluster.Cluster) error) error {
	want, _ := find(commands, name)
	if len(args) != len(strings.Fields(want.args)) {
		return usage(name)
	}
	c, err := cluster.Recorded(state.Default())
	if err != nil {
		return err
	}
	return f(c)
}
