package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"purelb.io/purelb/lab/internal/build"
	"purelb.io/purelb/lab/internal/scenes"
)

func init() {
	commands = append(commands,
		command{"scenes", "[--labs N] promises|all|part KEY|TEST...", "run end-to-end tests in several labs; part KEY chooses a part of what promises leaves out", runScenes})
}

func runScenes(ctx context.Context, args []string) error {
	r := &scenes.Runner{Out: os.Stdout, World: os.Getenv("LAB_WORLD")}
	f := flag.NewFlagSet("scenes", flag.ExitOnError)
	f.IntVar(&r.Labs, "labs", scenes.Labs(), "how many labs share the scenes")
	_ = f.Parse(args)
	var err error
	if r.Source, err = build.Source(); err != nil {
		return err
	}
	var list []scenes.Scene
	switch args = f.Args(); {
	case len(args) == 0, args[0] == "part" && len(args) != 2:
		return usage("scenes")
	case args[0] == "promises":
		list = scenes.Promises()
	case args[0] == "all":
		list = scenes.All
	case args[0] == "part":
		number, part := scenes.Part(args[1])
		fmt.Printf("part %d of %d of the scenes that `make test` leaves out, chosen by %s: %d scenes\n", number, scenes.Parts, args[1], len(part))
		list = part
	default:
		if list, err = scenes.Named(args); err != nil {
			return err
		}
	}
	if err := r.Run(ctx, list); err != nil {
		return errors.New(err.Error()) // main prints no exec.ExitError
	}
	return nil
}
