package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"purelb.io/purelb/lab/internal/build"
	"purelb.io/purelb/lab/internal/scenes"
	"purelb.io/purelb/lab/internal/worlds"
)

func init() {
	commands = append(commands,
		command{"scenes", "[--labs N] promises|all|part KEY|TEST...", "run end-to-end tests in several labs; part KEY chooses a part of what promises leaves out", runScenes},
		command{"worlds", "[WORLD...]", "run some of them in variations of the lab, and write docs/compatibility.md", func(ctx context.Context, args []string) error {
			return plain(worlds.Run(ctx, os.Stdout, args))
		}})
}

// plain returns an error that main prints, also if a program of the lab failed.
func plain(err error) error {
	if err != nil {
		return errors.New(err.Error())
	}
	return nil
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
	_, err = r.Run(ctx, list)
	return plain(err)
}
