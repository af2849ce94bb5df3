{{/* Whose the definition in a file of the folder crds is. The argument is a list: context, path of the file.
     ours: Helm may upgrade it with this release; current: it is not ours, but has this version;
     outdated: neither; absent: it is not there, or Helm does not ask the cluster. */}}
{{- define "purelb.crdState" -}}
{{- $release := (index . 0).Release -}}
{{- $want := ((index . 0).Files.Get (index . 1) | fromYaml).metadata -}}
{{- $live := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" $want.name -}}
{{- $found := ($live.metadata | default dict).annotations | default dict -}}
{{- $manager := get (($live.metadata | default dict).labels | default dict) "app.kubernetes.io/managed-by" -}}
{{- $owner := list $manager (get $found "meta.helm.sh/release-name") (get $found "meta.helm.sh/release-namespace") -}}
{{- if not $live -}}
{{ ternary "ours" "absent" $release.IsUpgrade }}
{{- else if eq ($owner | toJson) (list "Helm" $release.Name $release.Namespace | toJson) -}}
ours
{{- else -}}
{{ ternary "current" "outdated" (eq (get $found "purelb.io/schema") (get $want.annotations "purelb.io/schema")) }}
{{- end -}}
{{- end }}

{{/* The commands after which Helm upgrades the definitions with this release. */}}
{{- define "purelb.adoptCRDs" -}}
{{- $names := list -}}
{{- range $path, $_ := .Files.Glob "crds/*.yaml" -}}
{{- $names = append $names ($.Files.Get $path | fromYaml).metadata.name -}}
{{- end }}  kubectl label --overwrite crd {{ join " " $names }} app.kubernetes.io/managed-by=Helm
  kubectl annotate --overwrite crd {{ join " " $names }} meta.helm.sh/release-name={{ .Release.Name }} meta.helm.sh/release-namespace={{ .Release.Namespace }}
{{- end }}
