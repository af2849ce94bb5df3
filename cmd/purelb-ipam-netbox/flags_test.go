package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"log/slog"
	"strings"
	"testing"
)

func TestCommandLineOverridesTheEnvironment(t *testing.T) {
	usual := flags{socket: "/var/run/purelb/ipam.sock", config: "/etc/purelb-ipam-netbox/config.yaml"}
	environment := map[string]string{"PURELB_IPAM_SOCKET": "/run/a.sock", "PURELB_IPAM_CONFIG": "/a.yaml", "PURELB_LOG_LEVEL": "debug"}
	for _, tt := range []struct {
		name, args string
		env        map[string]string
		want       flags
	}{
		{"the usual", "", nil, usual},
		{"the environment", "", environment, flags{"/run/a.sock", "/a.yaml", slog.LevelDebug}},
		{"both", "--socket /run/b.sock --config=/b.yaml --log-level info", environment, flags{"/run/b.sock", "/b.yaml", slog.LevelInfo}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parse(strings.Fields(tt.args), func(name string) string { return tt.env[name] }, io.Discard)
			if err != nil || got != tt.want {
				t.Errorf("got %+v, %v, want %+v", got, err, tt.want)
			}
		})
	}
}

func TestFlagErrorsNameTheCure(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"--log-level loud", `--log-level "loud" is not known; use info or debug`},
		{"--port 1", "flag provided but not defined: -port"},
		{"serve", `"serve" is not a flag; see --help`},
		{"--config /none", "read the configuration: open /none: no such file or directory: give the file with --config"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			err := run(context.Background(), strings.Fields(tt.args), func(string) string { return "" }, io.Discard, io.Discard)
			if err == nil || err.Error() != tt.want {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func TestHelpNamesEveryFlag(t *testing.T) {
	var help bytes.Buffer
	err := run(context.Background(), []string{"--help"}, func(string) string { return "" }, io.Discard, &help)
	if !errors.Is(err, flag.ErrHelp) {
		t.Errorf("got %v", err)
	}
	for _, name := range []string{"socket", "config", "log-level"} {
		if !strings.Contains(help.String(), "-"+name) {
			t.Errorf("the help does not mention --%s:\n%s", name, help.String())
		}
	}
}
