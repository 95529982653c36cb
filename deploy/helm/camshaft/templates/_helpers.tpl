{{- define "camshaft.labels" -}}
app.kubernetes.io/name: camshaft
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
