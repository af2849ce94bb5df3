package ipamserver

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/netbox"
)

// Config says which pools a server has.
type Config struct {
	// Pools are the pools by name. The name is that of the ServiceGroup.
	Pools map[string]Pool
}

// Pool says where the addresses of a pool are.
type Pool struct {
	Source Source
	Group  netbox.Group
}

// file is the configuration in the form that people write. The fields of a pool have the
// names and the meaning of those in spec.netbox of a ServiceGroup.
type file struct {
	Cluster string              `json:"cluster"`
	Pools   map[string]poolText `json:"pools"`
}

type poolText struct {
	URL       string            `json:"url"`
	TokenFile string            `json:"tokenFile"`
	TokenEnv  string            `json:"tokenEnv"`
	CAFile    string            `json:"caFile"`
	Parents   []v2.NetboxParent `json:"parents"`
	Tenant    string            `json:"tenant"`
	Field     string            `json:"field"`
	Status    v2.NetboxSlug     `json:"status"`
	Role      v2.NetboxSlug     `json:"role"`
	Tags      []v2.NetboxSlug   `json:"tags"`
}

// Read reads the configuration. Its error has a line for each mistake.
func Read(name string) (Config, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return Config{}, fmt.Errorf("read the configuration: %w: give the file with --config", err)
	}
	f, err := decode(text)
	if err != nil {
		return Config{}, inFile(name, err)
	}
	var problems problems
	c := f.config(&problems)
	return c, inFile(name, errors.Join(problems...))
}

// inFile puts the name of the file before each line of err.
func inFile(name string, err error) error {
	if err == nil {
		return nil
	}
	return errors.New(name + ": " + strings.ReplaceAll(err.Error(), "\n", "\n"+name+": "))
}

// decode refuses text that is not YAML, and unknown fields.
func decode(text []byte) (file, error) {
	var f file
	object, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return f, fmt.Errorf("this is not YAML (%s): correct it there", oneLine(err))
	}
	unknown, err := kjson.UnmarshalStrict(object, &f)
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return f, fmt.Errorf("%s: this is not for a value of the type %s: write it as docs/ipam.md shows", cmp.Or(wrong.Field, "all of it"), wrong.Value)
	}
	if err != nil {
		return f, fmt.Errorf("%s: write it as docs/ipam.md shows", oneLine(err))
	}
	for i, err := range unknown {
		unknown[i] = fmt.Errorf("%s: correct its name, or remove it", oneLine(err))
	}
	return f, errors.Join(unknown...)
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// problems collects the mistakes.
type problems []error

func (p *problems) add(where, format string, args ...any) {
	*p = append(*p, fmt.Errorf("%s: %s", where, fmt.Sprintf(format, args...)))
}

func (f file) config(problems *problems) Config {
	switch {
	case f.Cluster == "":
		problems.add("cluster", "nothing is written here: write a name of this cluster, which no other cluster has in NetBox, such as production")
	case strings.ContainsAny(f.Cluster, "/: \t\n"):
		problems.add("cluster", "%q has a slash, a colon or a blank: write one word, such as production", f.Cluster)
	}
	if len(f.Pools) == 0 {
		problems.add("pools", "there is none: write one for each ServiceGroup, under its name")
	}
	c := Config{Pools: map[string]Pool{}}
	for _, name := range slices.Sorted(maps.Keys(f.Pools)) {
		c.Pools[name] = f.Pools[name].pool(f.Cluster, name, problems)
	}
	return c
}

// pool reads the pool called name.
func (t poolText) pool(cluster, name string, problems *problems) Pool {
	where := "pools." + name
	spec, wrong := config.ReadNetBox(where, v2.NetboxSpec{URL: t.URL, Mode: string(netbox.ModePrefix), Parents: t.Parents,
		Tenant: t.Tenant, Field: t.Field, Status: t.Status, Role: t.Role, Tags: t.Tags})
	p := Pool{
		Source: Source{URL: t.URL, TokenFile: t.TokenFile, TokenEnv: t.TokenEnv, CAFile: t.CAFile},
		Group:  netbox.GroupOf(name, space(cluster, name), spec),
	}
	if name == "" || strings.ContainsAny(name, ": \t\n") {
		problems.add("pools", "%q is not the name of a ServiceGroup: write that name, with its namespace and a slash before it if it is not in the namespace of PureLB", name)
		return p
	}
	for _, w := range wrong {
		problems.add(w.Field, "%s", w.Message)
	}
	if len(wrong) > 0 {
		return p
	}
	if field, problem := p.Source.problem(); problem != "" {
		problems.add(strings.TrimSuffix(where+"."+field, "."), "%s", problem)
	}
	return p
}

// space returns the beginning of the keys of a pool, before the first slash. The colon
// distinguishes them from the keys of an allocator, whose sweep releases addresses that its
// own Services do not have.
func space(cluster, pool string) string {
	return cluster + ":" + strings.ReplaceAll(pool, "/", ":")
}
