package netbox

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"purelb.io/purelb/internal/allocate/ipam"
)

// findField checks the custom field for keys, or creates it.
func (p *Pool) findField(ctx context.Context) error {
	p.key = keyField(p.group.Field)
	var found page[customField]
	look := call{name: "prepare", method: http.MethodGet, path: "extras/custom-fields/",
		query: url.Values{"name": {p.group.Field}}, what: "look for the custom field " + p.group.Field}
	r, err := p.client.do(ctx, look, &found)
	switch {
	case refused(err).status == http.StatusForbidden:
		return p.trustField(ctx, err)
	case err != nil:
		return err
	case found.Results == nil:
		return p.client.strange(look, r, "the list has no results")
	}
	for _, field := range *found.Results {
		if field.Name == p.group.Field {
			return p.useField(field)
		}
	}
	return p.makeField(ctx)
}

// trustField continues without the permission to view custom fields. It refuses a token that may
// view nothing.
func (p *Pool) trustField(ctx context.Context, cause error) error {
	probe := call{name: "prepare", path: "ipam/ip-addresses/", method: http.MethodGet,
		query: url.Values{"limit": {"1"}, "fields": {addressFields}}, what: "look at one IP address"}
	var found page[address]
	if _, err := p.client.do(ctx, probe, &found); err != nil {
		return err
	}
	if found.Results != nil {
		for _, a := range *found.Results {
			if _, ok := p.key.of(a); !ok {
				return p.withoutField(cause)
			}
		}
	}
	p.warn("the token may not view custom fields, so it is not known whether the values of %s are unique: give its user the permission to view extras.customfield", p.group.Field)
	return nil
}

// useField checks the properties of the field.
func (p *Pool) useField(f customField) error {
	types := slices.Concat(f.ObjectTypes, f.ContentTypes)
	switch {
	case f.Type.Value != "text":
		return misconfigured("the custom field %s in NetBox is of type %s: make one of type text, or name another one", f.Name, f.Type.Value)
	case !slices.Contains(types, "ipam.ipaddress"):
		return misconfigured("the custom field %s in NetBox is not one of IP addresses: add the object type ipam.ipaddress", f.Name)
	case f.FilterLogic.Value == "disabled":
		return misconfigured("the custom field %s in NetBox cannot be searched for: set its filter logic to exact", f.Name)
	case !f.Unique:
		p.warn("the values of the custom field %s in NetBox are not unique: after a lost answer a claim may hold a second address until the sweep; set unique (NetBox 4.1 and newer)", f.Name)
	}
	return nil
}

// makeField creates the field if the token may.
func (p *Pool) makeField(ctx context.Context) error {
	makeIt := call{name: "prepare", method: http.MethodPost, path: "extras/custom-fields/", what: "make the custom field " + p.group.Field,
		body: map[string]any{
			"name": p.group.Field, "type": "text", "object_types": []string{"ipam.ipaddress"}, "unique": true, "filter_logic": "exact",
			"label": "PureLB claim", "description": "Which Service of which cluster holds the address. PureLB writes it.",
		}}
	var made customField
	_, err := p.client.do(ctx, makeIt, &made)
	if status := refused(err).status; status == http.StatusForbidden || status == http.StatusBadRequest {
		return p.withoutField(err)
	}
	if err != nil {
		return err
	}
	return p.useField(made)
}

// withoutField refuses the group, because a claim is found by its key only.
func (p *Pool) withoutField(cause error) error {
	return &ipam.Error{Kind: ipam.KindMisconfigured, Cause: cause, Message: fmt.Sprintf(
		"NetBox at %s has no custom field %s for the claims: in NetBox make a custom field %[2]s for IP addresses (object type ipam.ipaddress), type text, unique, filter logic exact, "+
			"or let the token's user add extras.customfield", p.client.base, p.group.Field)}
}
