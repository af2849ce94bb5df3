package lifecycle

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"purelb.io/purelb/lab/cluster"
)

// Status prints the state of every machine, and reports whether the lab is well.
func Status(ctx context.Context, c *cluster.Cluster, out io.Writer) (well bool, err error) {
	ready := readyNodes(ctx, c)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MACHINE\tPID\tNODE\tINTERFACE\tIPV4\tIPV6\tPROGRAMS")
	for _, m := range c.Machines() {
		who := fmt.Sprintf("%s\t%s\t%s", m.Name, pid(c, m.Name), nodeWord(m, ready))
		programs := programList(c, m.Name)
		for _, n := range m.NICs {
			fmt.Fprintf(w, "%s\t%s %s\t%s\t%s\t%s\n", who, n.Name, n.Segment, n.V4, n.V6, programs)
			who, programs = "\t\t", ""
		}
	}
	if err := w.Flush(); err != nil {
		return false, err
	}
	problems := c.Problems(ctx)
	for _, p := range problems {
		fmt.Fprintln(out, "problem:", p)
	}
	return len(problems) == 0, nil
}

func readyNodes(ctx context.Context, c *cluster.Cluster) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	api, err := c.API()
	if err != nil {
		return nil
	}
	ready, err := api.ReadyNodes(ctx)
	if err != nil {
		return nil // Problems reports it
	}
	return ready
}

func nodeWord(m cluster.Machine, ready map[string]string) string {
	switch {
	case !m.Node:
		return ""
	case ready == nil:
		return "unknown"
	case ready[m.Name] == "":
		return "NotReady"
	}
	return "Ready"
}

func pid(c *cluster.Cluster, name string) string {
	if !c.Running(name) {
		return "off"
	}
	p, err := c.Spec.State.Process(name)
	if err != nil {
		return "?"
	}
	return fmt.Sprint(p.PID)
}

// programList marks programs that do not run although they should.
func programList(c *cluster.Cluster, name string) string {
	programs, err := c.Programs(name)
	if err != nil {
		return ""
	}
	var all []string
	for _, p := range programs {
		switch {
		case p.Running:
			all = append(all, p.Name)
		case !p.Healthy():
			all = append(all, fmt.Sprintf("%s!(%s)", p.Name, p.Ended))
		}
	}
	return strings.Join(all, " ")
}

// Hints prints what a user can do with a running lab.
func Hints(out io.Writer, c *cluster.Cluster) {
	fmt.Fprintf(out, `
  export KUBECONFIG=%s PATH=$PATH:%s
  kubectl get nodes
  go -C lab run . exec client curl ...   # from outside; or in cp, router, node-1 ...
  go -C lab run . status | down | help
`, c.Kubeconfig(), filepath.Join(c.Spec.Cache, "bin"))
}
