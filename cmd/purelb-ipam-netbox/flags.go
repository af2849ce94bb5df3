package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"log/slog"

	"purelb.io/purelb/internal/process"
)

// flags are the values from the command line and the environment.
type flags struct {
	socket, config string
	level          slog.Level
}

// parse reads the command line. The environment gives values for flags that are not set.
func parse(args []string, env func(string) string, stderr io.Writer) (flags, error) {
	var f flags
	level := cmp.Or(env("PURELB_LOG_LEVEL"), "info")
	set := flag.NewFlagSet("purelb-ipam-netbox", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.StringVar(&f.socket, "socket", cmp.Or(env("PURELB_IPAM_SOCKET"), "/var/run/purelb/ipam.sock"), "the `path` of the Unix socket to serve on (PURELB_IPAM_SOCKET)")
	set.StringVar(&f.config, "config", cmp.Or(env("PURELB_IPAM_CONFIG"), "/etc/purelb-ipam-netbox/config.yaml"), "the `file` that says which pools there are (PURELB_IPAM_CONFIG)")
	set.StringVar(&level, "log-level", level, "info or debug (PURELB_LOG_LEVEL)")
	if err := set.Parse(args); err != nil {
		return f, err
	}
	if set.NArg() > 0 {
		return f, fmt.Errorf("%q is not a flag; see --help", set.Arg(0))
	}
	var err error
	f.level, err = process.Level(level)
	return f, err
}
