package netbox

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/config"
)

// Pool is a group whose objects were found in NetBox. It is safe for concurrent use.
type Pool struct {
	client *Client
	group  Group
	facts  Facts
	key    keyField
	// etags says that NetBox compares ETags, which it does from 4.6 on.
	etags   bool
	parents []parent
	// tenant and tags are in the form of a NetBox request.
	tenant any
	tags   []any
}

// Facts are the findings of Prepare.
type Facts struct {
	// Version is the version of the server.
	Version string
	// Parents describes the prefixes and ranges in words.
	Parents []string
	// Warnings name settings that work but are not safe, and say how to correct them.
	Warnings []string
}

// Facts returns the findings of Prepare.
func (p *Pool) Facts() Facts { return p.facts }

// Prepare finds the objects that g names in NetBox. If the custom field is missing and the
// token has the permission, Prepare creates it. Call Prepare again when a claim is refused as
// misconfigured, because NetBox may have changed.
func (c *Client) Prepare(ctx context.Context, g Group) (*Pool, error) {
	p := &Pool{client: c, group: g}
	steps := []func(context.Context) error{p.findVersion, p.findField}
	if !g.Reserved {
		steps = append(steps, p.findTenant, p.findTags, p.findParents)
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// findVersion asks for the version. Any valid token may read it.
func (p *Pool) findVersion(ctx context.Context) error {
	var status struct {
		Version string `json:"netbox-version"`
	}
	what := call{name: "status", method: http.MethodGet, path: "status/", what: "read the version"}
	r, err := p.client.do(ctx, what, &status)
	if err != nil {
		return err
	}
	v, ok := readVersion(status.Version)
	if !ok {
		return p.client.strange(what, r, fmt.Sprintf("%q is not a version", short(status.Version)))
	}
	p.facts.Version = v.String()
	p.etags = !v.before(4, 6, 0)
	return p.judgeVersion(v)
}

// judgeVersion refuses a mode that the version cannot support, and warns of a mode that it cannot
// support safely.
func (p *Pool) judgeVersion(v version) error {
	switch {
	case v.before(3, 6, 4):
		return misconfigured("NetBox %s at %s is too old, for it loses the keys of claims: upgrade it to 4.1 or newer", v, p.client.base)
	case v.before(4, 1, 0):
		p.warn("NetBox %s has no custom fields with unique values: after a lost answer a claim may hold a second address until the sweep; upgrade it to 4.1 or newer", v)
	}
	if p.group.Reserved && !p.etags {
		p.warn("NetBox %s does not compare ETags: when another client of NetBox takes the same reserved address at the same time, both believe that they have it; use a prefix or IP range, or upgrade it to 4.6 or newer", v)
	}
	ranges := slices.ContainsFunc(p.group.Parents, func(d config.NetBoxParent) bool { return d.Range })
	if ranges && v.before(4, 6, 3) {
		if exempt(p.group.Role) {
			return misconfigured("NetBox %s gives an address of an IP range twice if the role is %s and the mask differs: remove the role, use a prefix, or upgrade NetBox to 4.6.3 or newer", v, p.group.Role)
		}
		p.warn("NetBox %s does not see addresses in an IP range that have another mask than the range, and then refuses every claim there: use a prefix, or upgrade it to 4.6.3 or newer", v)
	}
	return nil
}

func (p *Pool) warn(format string, args ...any) {
	p.facts.Warnings = append(p.facts.Warnings, fmt.Sprintf(format, args...))
}

// findTenant finds the id of the tenant.
func (p *Pool) findTenant(ctx context.Context) error {
	if p.group.Tenant == "" {
		return nil
	}
	var err error
	p.tenant, err = p.resolve(ctx, "tenant", "tenancy/tenants/", p.group.Tenant)
	return err
}

func (p *Pool) findTags(ctx context.Context) error {
	for _, slug := range p.group.Tags {
		tag, err := p.resolve(ctx, "tag", "extras/tags/", slug)
		if err != nil {
			return err
		}
		p.tags = append(p.tags, tag)
	}
	return nil
}

// resolve returns the id for a slug. Without the permission to view such objects it
// returns the slug, which NetBox accepts before 4.6.6.
func (p *Pool) resolve(ctx context.Context, kind, path, slug string) (any, error) {
	what := call{name: "prepare", method: http.MethodGet, path: path, query: url.Values{"slug": {slug}}, what: fmt.Sprintf("look for the %s %s", kind, slug)}
	var found page[reference]
	_, err := p.client.do(ctx, what, &found)
	if refused(err).status == http.StatusForbidden {
		return map[string]any{"slug": slug}, nil
	}
	if err != nil {
		return nil, err
	}
	if found.Results != nil {
		for _, r := range *found.Results {
			if r.Slug == slug {
				return r.ID, nil
			}
		}
	}
	return nil, misconfigured("NetBox at %s has no %s with the slug %s: make it, or correct the group", p.client.base, kind, slug)
}

// findParents finds the prefixes and ranges of the group.
func (p *Pool) findParents(ctx context.Context) error {
	for _, description := range p.group.Parents {
		found, err := p.findBlocks(ctx, description)
		if err != nil {
			return err
		}
		one, refusal := choose(description, found)
		if refusal != nil {
			refusal.Message = fmt.Sprintf("the group %s: %s", p.group.Name, refusal.Message)
			return refusal
		}
		p.addParent(one)
	}
	return nil
}

// addParent adds a parent that is not in the list yet.
func (p *Pool) addParent(one parent) {
	if slices.ContainsFunc(p.parents, func(other parent) bool { return other.kind == one.kind && other.id == one.id }) {
		return
	}
	if one.populated {
		p.warn("the %s is marked as populated, so NetBox gives no address of it: remove the mark", one)
	}
	p.parents = append(p.parents, one)
	p.facts.Parents = append(p.facts.Parents, one.notation())
}

func (p *Pool) findBlocks(ctx context.Context, description config.NetBoxParent) ([]block, error) {
	what := call{name: "prepare", method: http.MethodGet, path: kindOf(description).path(), what: "look for the " + inWords(description)}
	if description.ID == 0 {
		what.query = query(description)
		return list[block](ctx, p.client, what)
	}
	what.path += fmt.Sprintf("%d/", description.ID)
	var one block
	r, err := p.client.do(ctx, what, &one)
	if err == nil && one.ID != description.ID {
		return nil, p.client.strange(what, r, fmt.Sprintf("it has the id %d", one.ID))
	}
	return []block{one}, err
}

// parentsOf returns the parents of a family, in the order of the group.
func (p *Pool) parentsOf(f addr.Family) []parent { return ofFamily(p.parents, f) }
