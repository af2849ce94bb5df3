package chart

import (
	"bytes"
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"

	"purelb.io/purelb/internal/testing/apitest"
	"purelb.io/purelb/internal/testing/expect"
)

var update = flag.Bool("update", false, "write the answers in testdata/scenes anew")

// A scene of testdata/scenes begins with "# name". Then it has values, and after each question
// ("? ") the answer ("-> "). Without a question, the answer is a part of the error by which Helm
// refuses the values.
func TestScenes(t *testing.T) { expect.Scenes(t, "testdata/scenes/*.txt", *update, play) }

// play returns a scene with the answers that the chart gives.
func play(t *testing.T, script string) string {
	t.Helper()
	script = "\n" + script // also without values, there is a line before a question
	if values, refusal, refused := strings.Cut(script, "\n-> "); refused && !strings.Contains(values, "\n? ") {
		_, err := renderAll(t, values)
		if err == nil || !strings.Contains(err.Error(), refusal) {
			refusal = fmt.Sprint(err)
		}
		return strings.TrimPrefix(values+"\n-> "+refusal, "\n")
	}
	values, questions, _ := strings.Cut(script, "\n? ")
	objects, err := renderAll(t, values)
	expect.NoError(t, err)
	for part := range strings.SplitSeq(questions, "\n? ") {
		question, _, _ := strings.Cut(part, "\n")
		values += "\n? " + question
		for _, answer := range ask(t, objects, question) {
			values += strings.TrimRight("\n-> "+answer, " ")
		}
	}
	return strings.TrimPrefix(values, "\n")
}

// ask answers a question about each of the objects. "Deployment allocator PATH" is what "kubectl get -o
// jsonpath=PATH" prints of the object, and "pod allocator PATH" what it prints of a pod's spec.
func ask(t *testing.T, objects []*unstructured.Unstructured, question string) (answers []string) {
	t.Helper()
	word, rest, _ := strings.Cut(question, " ")
	name, path, _ := strings.Cut(rest, " ")
	for _, o := range objects {
		is := func(kind bool) bool { return kind && o.GetName() == name }
		pod, isPod, _ := unstructured.NestedMap(o.Object, "spec", "template", "spec")
		switch {
		case word == "with" || word == "without": // objects, by their text
			text, err := yaml.Marshal(o)
			expect.NoError(t, err)
			if regexp.MustCompile("(?m)"+rest).Match(text) == (word == "with") {
				answers = append(answers, strings.TrimSpace(o.GetKind()+" "+o.GetName()+" "+o.GetNamespace()))
			}
		case word == "env":
			answers = append(answers, environment(t, o, name)...)
		case word == "rights" && is(strings.HasSuffix(o.GetKind(), "Role")):
			answers = append(append(answers, strings.TrimSpace(o.GetKind()+" "+o.GetNamespace())), rights(t, o)...)
		case word == "pod" && is(isPod):
			answers = append(answers, look(t, pod, path)...)
		case is(o.GetKind() == word):
			answers = append(answers, look(t, o.Object, path)...)
		}
	}
	return answers
}

// look returns the lines of what is at path in an object.
func look(t *testing.T, object map[string]any, path string) []string {
	t.Helper()
	at, text := jsonpath.New(path).AllowMissingKeys(true), bytes.Buffer{}
	expect.NoError(t, at.Parse(path))
	expect.NoError(t, at.Execute(&text, object))
	return strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
}

// environment returns a variable of the containers of a pod.
func environment(t *testing.T, o *unstructured.Unstructured, variable string) (values []string) {
	t.Helper()
	pod := podOf(t, o)
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		for _, e := range c.Env {
			switch from := e.ValueFrom; {
			case e.Name != variable:
			case from == nil:
				values = append(values, c.Name+": "+e.Value)
			case from.FieldRef != nil:
				values = append(values, c.Name+": field "+from.FieldRef.FieldPath)
			default:
				values = append(values, fmt.Sprintf("%s: %s in %s", c.Name, from.ResourceFieldRef.Resource, &from.ResourceFieldRef.Divisor))
			}
		}
	}
	return values
}

// podOf returns the pod of a program, or one without containers.
func podOf(t *testing.T, o *unstructured.Unstructured) corev1.PodSpec {
	t.Helper()
	switch o.GetKind() {
	case "Deployment":
		return apitest.As[appsv1.Deployment](t, o).Spec.Template.Spec
	case "DaemonSet":
		return apitest.As[appsv1.DaemonSet](t, o).Spec.Template.Spec
	}
	return corev1.PodSpec{}
}

// rights lists what a role allows, as "resource [names]: verbs", sorted.
func rights(t *testing.T, o *unstructured.Unstructured) []string {
	t.Helper()
	var list []string
	for _, rule := range apitest.As[rbacv1.ClusterRole](t, o).Rules {
		for _, resource := range rule.Resources {
			name, sub, _ := strings.Cut(resource, "/")
			if group := rule.APIGroups[0]; group != "" {
				name += "." + group
			}
			if sub != "" {
				name += "/" + sub
			}
			if len(rule.ResourceNames) > 0 {
				name += fmt.Sprint(" ", rule.ResourceNames)
			}
			list = append(list, name+": "+strings.Join(rule.Verbs, " "))
		}
	}
	slices.Sort(list)
	return list
}
