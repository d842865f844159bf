{{- /* The labels that helm's own objects carry; the module's manifests have their own on top. */ -}}
{{- define "labels" -}}
app.kubernetes.io/name: kuberay-operator
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}
