package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// The shell filters the names. ":4" at the end keeps it from adding names of files.
func TestTheShellCompletesNames(t *testing.T) {
	const file = "-f testdata/cluster.yaml "
	for args, want := range map[string]string{
		file + "explain service ":   "default/web",
		file + "explain svc/":       "svc/default/web",
		file + "explain sg ":        "far",
		file + "explain lbna/":      "lbna/edge",
		file + "explain ":           "bgpconfiguration",
		file + "inspect ":           "shop/till",
		file + "explain group ":     "far",
		file + "explain node ":      "n1",
		file + "explain ip ":        "192.168.10.200",
		file + "services --node ":   "n1",
		file + "services --group ":  "default",
		file + "pools --group ":     "default",
		file + "services --ip ":     "192.168.10.200",
		file + "services -n ":       "shop",
		"status -o ":                "yaml",
		"check -o ":                 "short",
		"status ":                   "",
		"-f testdata/none inspect ": "",
	} {
		names := completed(t, args)
		if last := len(names) - 1; names[last] != ":4" || want != "" && !slices.Contains(names, want) || want == "" && last > 0 {
			t.Errorf("%q is completed with %q, want %q", args, names, want)
		}
	}
}

// completed returns the names that complete the last word of a command line, and the directive to the shell.
func completed(t *testing.T, line string) []string {
	t.Helper()
	var out, errs bytes.Buffer
	if code := run(t.Context(), append([]string{cobra.ShellCompRequestCmd}, strings.Split(line, " ")...), strings.NewReader(""), &out, &errs); code != exitFine {
		t.Fatalf("%q exits with %d: %s", line, code, errs.String())
	}
	return strings.Fields(out.String())
}
