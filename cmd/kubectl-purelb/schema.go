package main

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
	kubevalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apicel "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	chart "purelb.io/purelb/charts/purelb"
	"purelb.io/purelb/internal/explain"
)

// definition judges objects as the API server does, by one version of a CustomResourceDefinition.
type definition struct {
	schema *schema.Structural
	types  validation.SchemaValidator
	rules  func() *cel.Validator
}

// definitions returns the definitions of the chart, by API version and kind. It panics if they are
// not valid, because they are a part of the program.
var definitions = sync.OnceValue(func() map[string]definition {
	must := func(err error) {
		if err != nil {
			panic(fmt.Sprintf("the definitions of the chart are not valid: %v", err))
		}
	}
	all := map[string]definition{}
	files, err := fs.Glob(chart.Definitions, "crds/*")
	must(err)
	for _, file := range files {
		text, err := chart.Definitions.ReadFile(file)
		must(err)
		var crd apiextensionsv1.CustomResourceDefinition
		must(yaml.Unmarshal(text, &crd))
		for _, v := range crd.Spec.Versions {
			var s apiextensions.JSONSchemaProps
			must(apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v.Schema.OpenAPIV3Schema, &s, nil))
			structural, err := schema.NewStructural(&s)
			must(err)
			types, _, err := validation.NewSchemaValidator(&s)
			must(err)
			all[crd.Spec.Group+"/"+v.Name+" "+crd.Spec.Names.Kind] = definition{structural, types,
				sync.OnceValue(func() *cel.Validator { return cel.NewValidator(structural, true, apicel.PerCallLimit) })}
		}
	}
	return all
})

// judge returns why an API server would refuse o.
func (d definition) judge(o map[string]any) field.ErrorList {
	errs := validation.ValidateCustomResource(nil, o, d.types)
	if errs = append(errs, listtype.ValidateListSetsAndMaps(nil, d.schema, o)...); len(errs) > 0 {
		return errs // Rules are for objects of the right types.
	}
	errs, _ = d.rules().Validate(context.Background(), nil, d.schema, o, nil, apicel.RuntimeCELCostBudget)
	return errs
}

// defined sets the defaults of p if it is a custom resource of PureLB, and records why an API server would
// refuse it.
func (l *loader) defined(p *pending, o explain.Object) error {
	if l.judges {
		l.judgeName(o, p.Metadata)
	}
	if !ofPureLB(p.APIVersion) {
		return nil
	}
	d := definitions()[p.APIVersion+" "+p.Kind]
	var body map[string]any
	if err := json.Unmarshal(p.text, &body); err != nil {
		return err
	}
	defaulting.Default(body, d.schema)
	if l.judges {
		for _, e := range d.judge(body) {
			text := e.ErrorBody()
			if e.Detail != "" && e.Type != field.ErrorTypeNotSupported {
				text = strings.TrimPrefix(e.Detail, e.Field+" in body ")
			}
			l.mistake(o, e.Field, e.Field+": "+text)
		}
	}
	var err error
	p.text, err = json.Marshal(body)
	return err
}

// judgeName records why an API server would refuse the name of o.
func (l *loader) judgeName(o explain.Object, meta metav1.ObjectMeta) {
	valid := kubevalidation.IsDNS1123Subdomain
	if o.Kind == "Service" || o.Kind == "Namespace" {
		valid = kubevalidation.IsDNS1123Label
	}
	if o.Name == "" && meta.GenerateName != "" {
		return
	}
	for _, wrong := range valid(o.Name) {
		wrong, _, _ = strings.Cut(wrong, " (e.g.")
		l.mistake(o, "metadata.name", "metadata.name: "+wrong)
	}
}
