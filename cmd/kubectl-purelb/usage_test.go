package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

// Such an error needs no cluster. None is reachable here.
func TestErrorsOfTheCommandLineSayWhatToWrite(t *testing.T) {
	t.Setenv("KUBECONFIG", "testdata/none")
	for args, want := range map[string]string{
		"statsu":                            `kubectl purelb has no command "statsu"; did you mean status?; see kubectl purelb --help`,
		"frobnicate":                        `kubectl purelb has no command "frobnicate"; see kubectl purelb --help`,
		"bgp session":                       `kubectl purelb bgp has no command "session"; did you mean sessions?; see kubectl purelb bgp --help`,
		"status now":                        `kubectl purelb status takes no argument, but "now" is one; see kubectl purelb status --help`,
		"status --foo":                      `unknown flag: --foo; see kubectl purelb status --help`,
		"pools --service-group":             `flag needs an argument: --service-group; see kubectl purelb pools --help`,
		"explain service":                   `kubectl purelb explain service needs one argument, NAMESPACE/NAME, but there are 0; see kubectl purelb explain service --help`,
		"explain service default web":       `kubectl purelb explain service needs one argument, NAMESPACE/NAME, but there are 2; see kubectl purelb explain service --help`,
		"explain service web":               `"web" is not the name of a Service; write NAMESPACE/NAME, such as default/web`,
		"explain service a/b/c":             `"a/b/c" is not the name of a Service; write NAMESPACE/NAME, such as default/web`,
		"inspect web":                       `"web" is not the name of a Service; write NAMESPACE/NAME, such as default/web`,
		"explain ip 192.0.2.0/24":           `"192.0.2.0/24" is not an IP address; write one such as 192.0.2.10 or 2001:db8::10`,
		"probe x":                           `"x" is not an IP address; write one such as 192.0.2.10 or 2001:db8::10`,
		"services --ip x":                   `--ip: "x" is not an IP address; write one such as 192.0.2.10 or 2001:db8::10`,
		"validate -f https://example.org/x": `-f takes files and directories, but https://example.org/x is a URL; download it first, or pipe it to -f -`,
		"status -o xml":                     `--output "xml" is not an output format of kubectl purelb status; use table, json, yaml`,
		"check -o wide":                     `--output "wide" is not an output format of kubectl purelb check; use table, json, yaml, short`,
		"report --open x status -o short":   `--output "short" is not an output format of kubectl purelb status; use table, json, yaml`,
	} {
		var out, errs bytes.Buffer
		code := run(context.Background(), strings.Fields(args), strings.NewReader(""), &out, &errs)
		if got := strings.TrimSpace(errs.String()); code != exitFailed || got != "error: "+want || out.Len() > 0 {
			t.Errorf("%s exits with %d\n got %s\nwant error: %s", args, code, got, want)
		}
	}
}

func TestFilesWithoutObjectsOfPureLBAreNamed(t *testing.T) {
	out, code := cli(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}\n", "validate", "-f", "-")
	want := "no ServiceGroup, LBNodeAgent, BGPConfiguration, Service or other object that PureLB reads"
	if code != exitFailed || !strings.Contains(out, want) {
		t.Errorf("exit code %d\n got %s\nwant %s", code, out, want)
	}
}
