package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/allocate/allocstate"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/explain"
)

// newIPAM makes the commands about groups whose addresses another system manages.
func newIPAM(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use: "ipam", Short: "Show and release what NetBox holds for no Service", Args: noArguments, RunE: help,
		Example: "  kubectl purelb ipam release-orphans public",
	}
	cmd.AddCommand(newReleaseOrphans(o))
	return cmd
}

func newReleaseOrphans(o *options) *cobra.Command {
	var confirm bool
	cmd := &cobra.Command{
		Use: "release-orphans GROUP", Short: "List the addresses that NetBox holds for no Service of this cluster, and release them", Args: oneArgument(isName),
		Long: `List the addresses of a ServiceGroup that NetBox holds under the name of this cluster, and
that none of its Services has. Another cluster may use them: one with the same name, or one
of which this cluster is a copy. With --confirm the allocator releases exactly the
addresses that are listed: the command sets the annotation ` + config.AnnotationReleaseOrphans + `
of the ServiceGroup.`,
		Example: `  kubectl purelb ipam release-orphans public
  kubectl purelb ipam release-orphans public --confirm`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.asksAllocator, o.noBGP = true, true
			r, err := o.cluster()
			if err != nil {
				return err
			}
			b, err := r.backend(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if confirm && b.Orphans > 0 {
				if err := r.releaseOrphans(cmd.Context(), b); err != nil {
					return err
				}
			}
			return o.finish(orphans{Group: b.Group, Orphans: b.Orphans, Listed: b.Listed, Confirmed: confirm && b.Orphans > 0}, false)
		},
	}
	cmd.Flags().BoolVar(&confirm, "confirm", false, "Release the addresses")
	return cmd
}

// backend returns what the allocator knows of the backend of a group.
func (r *reader) backend(ctx context.Context, group string) (allocstate.Backend, error) {
	w, err := r.read(ctx)
	switch {
	case err != nil:
		return allocstate.Backend{}, err
	case w.Allocator == nil:
		return allocstate.Backend{}, fmt.Errorf("the allocator was not heard: %s", w.Unheard[0].Why)
	}
	i := slices.IndexFunc(w.Allocator.Backends, func(b allocstate.Backend) bool { return b.Group == group })
	if i < 0 {
		return allocstate.Backend{}, fmt.Errorf("ServiceGroup %q has no addresses of NetBox or of an IPAM server", group)
	}
	return w.Allocator.Backends[i], nil
}

// releaseOrphans lets the allocator release the orphans of b.
func (r *reader) releaseOrphans(ctx context.Context, b allocstate.Backend) error {
	namespace, name, other := strings.Cut(b.Group, "/")
	if !other {
		namespace, name = r.namespace, b.Group
	}
	g := &v2.ServiceGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	return r.annotate(ctx, g, config.AnnotationReleaseOrphans, b.Digest)
}

// orphans is the answer of release-orphans.
type orphans struct {
	Group     string              `json:"group"`
	Orphans   int                 `json:"orphans"`
	Listed    []allocstate.Orphan `json:"listed,omitempty"`
	Confirmed bool                `json:"confirmed"`
}

// Tables implements answer.
func (a orphans) Tables() []explain.Table {
	list := explain.Table{Head: []string{"ADDRESS", "CLAIM"}}
	for _, one := range a.Listed {
		list.Rows = append(list.Rows, []string{one.Address.String(), one.Key})
	}
	if more := a.Orphans - len(a.Listed); more > 0 {
		list.Rows = append(list.Rows, []string{fmt.Sprintf("and %d more", more), ""})
	}
	switch {
	case a.Confirmed:
		list.Lines = []string{"The allocator releases these addresses now."}
	case a.Orphans > 0:
		list.Lines = []string{"If no other cluster uses these addresses, add --confirm to release them."}
	default:
		return []explain.Table{{Lines: []string{"NetBox holds no address for this cluster without a Service."}}}
	}
	return []explain.Table{list}
}
