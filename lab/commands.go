package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"text/tabwriter"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/lab/cluster"
	"purelb.io/purelb/lab/internal/build"
	"purelb.io/purelb/lab/internal/lifecycle"
	"purelb.io/purelb/lab/internal/preflight"
	"purelb.io/purelb/lab/internal/state"
	"purelb.io/purelb/lab/internal/topology"
)

// command is one of the lab's commands.
type command struct {
	name, args, help string
	run              func(ctx context.Context, args []string) error
}

// commands is filled in by init, because help reads it.
var commands []command

func init() {
	commands = []command{
		{"up", "[--nodes N] [--world NAME] [--force]", "build what is missing and bring the cluster up", up},
		{"down", "", "end the cluster and leave nothing behind", down},
		{"status", "", "show the machines and how they do; fails when something is wrong", status},
		{"exec", "MACHINE COMMAND...", "run a command in a machine", execute},
		{"logs", "[-f] MACHINE [PROGRAM]", "show what a program has written; without PROGRAM, which there are", logs},
		{"kubeconfig", "[--export]", "print the path of the kubeconfig, or the line that a shell takes", kubeconfig},
		{"crash", "MACHINE", "cut a machine's power", crash},
		{"boot", "MACHINE", "give it power again", boot},
		{"start", "MACHINE PROGRAM", "start a program that was stopped", startProgram},
		{"stop", "MACHINE PROGRAM", "kill a program", stopProgram},
		{"build", "[PROGRAM...]", "only build, all or: " + strings.Join(build.Names(), " "), buildOnly},
		{"deps", "", "install the Debian packages that the lab needs", deps},
		{"help", "", "show this", help},
	}
}

func help(context.Context, []string) error {
	fmt.Println("A real Kubernetes cluster on this machine, with a router and a client outside it.")
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, c := range commands {
		fmt.Fprintf(w, "  lab %s %s\t%s\n", c.name, c.args, c.help)
	}
	return w.Flush()
}

// usage is the error for a wrong command line.
func usage(name string) error {
	c, _ := find(commands, name)
	return fmt.Errorf("usage: lab %s %s", name, c.args)
}

func up(ctx context.Context, args []string) error {
	o := lifecycle.Options{Out: os.Stdout}
	f := flag.NewFlagSet("up", flag.ExitOnError)
	f.IntVar(&o.Nodes, "nodes", 4, "number of nodes")
	f.BoolVar(&o.Force, "force", false, "take a lab that is up down first")
	f.StringVar(&o.World, "world", "", "variation of the cluster: "+strings.Join(worldNames(), ", ")+" (default: that of LAB_WORLD, or the first)")
	_ = f.Parse(args)
	return lifecycle.Up(ctx, state.Default(), o)
}

func worldNames() (names []string) {
	for _, w := range topology.Worlds {
		names = append(names, w.Name)
	}
	return names
}

// down also takes down labs beside the usual one that a broken run of scenes has left.
func down(context.Context, []string) error {
	err := lifecycle.Down(state.Default(), os.Stdout)
	for n := 2; state.Default().Beside(n).Exists(); n++ {
		err = errors.Join(err, lifecycle.Down(state.Default().Beside(n), io.Discard))
	}
	return err
}

func status(ctx context.Context, _ []string) error {
	c, err := cluster.Recorded(state.Default())
	if err != nil {
		return err
	}
	well, err := lifecycle.Status(ctx, c, os.Stdout)
	if err == nil && !well {
		err = errors.New("the lab is not well; `lab up` builds it anew")
	}
	return err
}

func execute(ctx context.Context, args []string) error {
	if len(args) < 2 {
		return usage("exec")
	}
	c, err := cluster.Recorded(state.Default())
	if err != nil {
		return err
	}
	// The terminal also sends the signal to the command. The command decides what to do, and the
	// lab waits for its end.
	cmd, err := c.Command(context.WithoutCancel(ctx), args[0], args[1:]...)
	if err != nil {
		return err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = foreground(os.Stdin)
	if dir, err := os.Getwd(); err == nil && !strings.HasPrefix(dir, "/run") {
		cmd.Dir = dir
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(unix.SIGTERM) })
	defer stop()
	return cmd.Wait()
}

// foreground gives the command the terminal, if there is one, so that an interactive shell works in
// a machine.
func foreground(f *os.File) *syscall.SysProcAttr {
	if _, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS); err != nil {
		return nil
	}
	return &syscall.SysProcAttr{Setpgid: true, Foreground: true, Ctty: int(f.Fd())}
}

func logs(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("logs", flag.ExitOnError)
	follow := f.Bool("f", false, "go on as more is written")
	_ = f.Parse(args)
	dir := state.Default()
	switch f.NArg() {
	case 1:
		programs, err := dir.Logs(f.Arg(0))
		fmt.Println(strings.Join(programs, "\n"))
		return err
	case 2:
	default:
		return usage("logs")
	}
	file := dir.Log(f.Arg(0), f.Arg(1))
	if *follow {
		cmd := exec.CommandContext(ctx, "tail", "-n", "+1", "-f", file)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		return cmd.Run()
	}
	log, err := os.Open(file)
	if err != nil {
		return err
	}
	defer log.Close()
	_, err = io.Copy(os.Stdout, log)
	return err
}

func kubeconfig(_ context.Context, args []string) error {
	f := flag.NewFlagSet("kubeconfig", flag.ExitOnError)
	export := f.Bool("export", false, "print a line for a shell's eval")
	_ = f.Parse(args)
	c, err := cluster.Open()
	if err != nil {
		return err
	}
	if *export {
		fmt.Print("export KUBECONFIG=")
	}
	fmt.Println(c.Kubeconfig())
	return nil
}

func buildOnly(ctx context.Context, args []string) error {
	dir, err := build.Build(ctx, os.Stderr, args...)
	if err != nil {
		return err
	}
	cache, err := build.Cache()
	if err != nil {
		return err
	}
	if len(args) == 0 {
		args = build.Always()
	}
	for _, name := range args {
		fmt.Println(filepath.Join(cache, "bin", name))
	}
	fmt.Fprintln(os.Stderr, "in", dir)
	return nil
}

func deps(ctx context.Context, _ []string) error {
	return preflight.Inspect(state.Default().Probe()).Install(ctx, os.Stdout)
}
