package linux

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/testing/expect"
)

// Each script in testdata has a node of its own. A script begins with "# name". The lines with "->"
// are the output of the line before them. A line without such lines has no output. A line is a word
// of do, or a command of iproute2.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	expect.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		expect.NoError(t, err)
		for part := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
			name, script, _ := strings.Cut(part, "\n")
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txt")+"/"+strings.TrimPrefix(name, "# "), func(t *testing.T) {
				newWorld(t)
				s := &scene{T: t, Stack: newStack(t)}
				lines := strings.Split(script, "\n")
				for i := 0; i < len(lines); {
					command, want := lines[i], ""
					for i++; i < len(lines) && strings.HasPrefix(lines[i], "->"); i++ {
						want += strings.TrimSpace(lines[i][2:]) + "\n"
					}
					s.expect(command, want)
				}
			})
		}
	}
}

// scene is a node, and perhaps its neighborhood.
type scene struct {
	*testing.T
	*Stack
	there neighborhood
}

// expect runs a line. A probe is repeated until it has the wanted answers.
func (s *scene) expect(command, want string) {
	s.Helper()
	verb, rest, _ := strings.Cut(command, " ")
	args := strings.Fields(rest)
	if verb == "probe" {
		answersAre(s.T, want, func() announce.Answers { return probe(s.T, s.Stack, args[0], args[1:]...) })
		return
	}
	expect.Equal(s.T, command, s.do(verb, rest, args), want)
}

func (s *scene) do(verb, rest string, args []string) string {
	switch verb {
	case "neighborhood": // the other end of eth0
		s.there = newNeighborhood(s.T)
	case "there": // a command of iproute2 in the neighborhood
		s.there.ip(s.T, rest)
	case "works": // waits until a link works
		eventually(s.T, "the link works", func() bool {
			l, err := s.link(s.Context(), args[0])
			return err == nil && l.works() && !strings.Contains(ip(s.T, "-d link show"), "state listening")
		})
		settle(s.T, s.Stack)
	case "put":
		return problems(s.Put(s.Context(), parse(args)))
	case "remove":
		return problems(s.Remove(s.Context(), parse(args)))
	case "dummy":
		expect.NoError(s.T, s.EnsureDummy(s.Context(), "kube-lb0"))
	case "undummy":
		expect.NoError(s.T, s.RemoveDummies(s.Context()))
	case "addresses":
		return addresses(s.T, s.Stack, args[0])
	case "links":
		return links(observe(s.T, s.Stack))
	case "gateways":
		return fmt.Sprintln(observe(s.T, s.Stack).Gateways)
	case "networks": // of routes
		return networks(observe(s.T, s.Stack))
	case "source": // that the kernel chooses for this destination
		_, route, _ := strings.Cut(ip(s.T, "route get "+args[0]), " src ")
		return strings.Fields(route)[0] + "\n"
	case "promotes": // reads promote_secondaries of eth0, or sets it
		if len(args) == 0 {
			setting, err := os.ReadFile("/proc/sys/net/ipv4/conf/eth0/promote_secondaries")
			expect.NoError(s.T, err)
			return string(setting)
		}
		sysctl(s.T, "ipv4.conf.all.promote_secondaries", args[0])
		sysctl(s.T, "ipv4.conf.eth0.promote_secondaries", args[0])
	default:
		ip(s.T, verb+" "+rest)
	}
	return ""
}

// parse reads addresses, as in "local 192.0.2.9/24 fd00::9/64@eth7" or "remote ...". They are on eth0
// by default. "local=3h" is another lifetime.
func parse(words []string) (all []announce.Address) {
	kind, lifetime, _ := strings.Cut(words[0], "=")
	for _, word := range words[1:] {
		prefix, link, elsewhere := strings.Cut(word, "@")
		if !elsewhere {
			link = "eth0"
		}
		a := map[string]func(string, string) announce.Address{"local": local, "remote": remote, "single": single, "join": join}[kind](link, prefix)
		if valid, err := time.ParseDuration(lifetime); err == nil {
			if a.Preferred > 0 {
				a.Preferred = valid
			}
			a.Valid = valid
		}
		all = append(all, a)
	}
	return all
}

// problems returns the errors of a call, one in a line.
func problems(err error) string {
	if err == nil {
		return ""
	}
	return strings.ToLower(err.Error()) + "\n"
}

// networks lists the networks of routes.
func networks(node announce.Node) string {
	var b strings.Builder
	for _, n := range node.Networks {
		fmt.Fprint(&b, n.Link, " ", n.Prefix)
		if n.ByKernel {
			fmt.Fprint(&b, " by the kernel")
		}
		fmt.Fprintln(&b)
	}
	return b.String()
}
