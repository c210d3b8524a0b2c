// olmcheck runs the checks of the Operator Lifecycle Manager itself over a registry+v1 bundle and a file-based
// catalogue, offline.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/api/pkg/validation"
	verrors "github.com/operator-framework/api/pkg/validation/errors"
	vinterfaces "github.com/operator-framework/api/pkg/validation/interfaces"
	"github.com/operator-framework/operator-registry/alpha/action/migrations"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
	"github.com/operator-framework/operator-registry/pkg/image"
	"github.com/operator-framework/operator-registry/pkg/lib/bundle"
	"github.com/operator-framework/operator-registry/pkg/registry"
	"github.com/sirupsen/logrus"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	k8svalidation "k8s.io/apimachinery/pkg/util/validation"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

const usage = `usage:
  olmcheck bundle [-werror] DIR             the validators of operator-framework/api and opm, and the rules of OLM v1
  olmcheck catalog [-werror] DIR            what "opm validate DIR" checks; prints the names of the bundles
  olmcheck render [-image REF] [-migrate LEVEL] DIR   what "opm render DIR" prints
`

func main() {
	// opm only warns of what it then leaves out: a file that does not parse, for one.
	logrus.SetOutput(io.Discard)
	logrus.SetLevel(logrus.WarnLevel)
	logged := &recorder{}
	logrus.AddHook(logged)

	if len(os.Args) < 2 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	flags.Usage = func() { fmt.Fprint(os.Stderr, usage) }
	werror := flags.Bool("werror", false, "warnings are errors")
	ref := flags.String("image", "", "the bundle's image")
	level := flags.String("migrate", migrations.NoMigrations, "none or bundle-object-to-csv-metadata (needs -image)")
	_ = flags.Parse(os.Args[2:])
	if flags.NArg() != 1 {
		flags.Usage()
		os.Exit(2)
	}

	dir := flags.Arg(0)
	r := &report{}
	switch os.Args[1] {
	case "bundle":
		checkBundle(dir, r)
	case "catalog":
		checkCatalog(dir, r)
	case "render":
		if err := renderBundle(dir, *ref, *level, os.Stdout); err != nil {
			r.err("Bundle/"+filepath.Base(dir), err.Error())
		}
	default:
		flags.Usage()
		os.Exit(2)
	}
	for _, message := range logged.messages {
		r.err("opm/"+filepath.Base(dir), message)
	}
	os.Exit(r.print(os.Args[1] == "render", *werror))
}

type recorder struct{ messages []string }

func (r *recorder) Levels() []logrus.Level {
	return []logrus.Level{logrus.PanicLevel, logrus.FatalLevel, logrus.ErrorLevel, logrus.WarnLevel}
}

func (r *recorder) Fire(entry *logrus.Entry) error {
	r.messages = append(r.messages, entry.Message)
	return nil
}

// report collects what is found: the validators walk maps, so their order is not ours.
type report struct{ errors, warnings []string }

func line(level, subject, text string) string {
	return level + " " + subject + ": " + strings.Join(strings.Fields(text), " ")
}

func (r *report) err(subject, text string) { r.errors = append(r.errors, line("error", subject, text)) }
func (r *report) warn(subject, text string) {
	r.warnings = append(r.warnings, line("warning", subject, text))
}

func (r *report) print(toStderr, werror bool) int {
	out := os.Stdout
	if toStderr {
		out = os.Stderr
	}
	for _, lines := range [][]string{r.errors, r.warnings} {
		sort.Strings(lines)
		for _, l := range slices.Compact(lines) {
			fmt.Fprintln(out, l)
		}
	}
	if len(r.errors) > 0 || werror && len(r.warnings) > 0 {
		return 1
	}
	return 0
}

// ---- bundle

// Left out of validation.AllValidators: PackageManifest (another format), CommunityOperator (deprecated) and
// MultipleArchitectures (runs docker or podman and pulls images).
var bundleValidators = map[string]vinterfaces.Validator{
	"Bundle":                validation.BundleValidator,
	"OperatorHubV2":         validation.OperatorHubV2Validator,
	"StandardCapabilities":  validation.StandardCapabilitiesValidator,
	"StandardCategories":    validation.StandardCategoriesValidator,
	"AlphaDeprecatedAPIs":   validation.AlphaDeprecatedAPIsValidator,
	"GoodPractices":         validation.GoodPracticesValidator,
	"ClusterServiceVersion": validation.ClusterServiceVersionValidator,
	"CRD":                   validation.CustomResourceDefinitionValidator,
	"Object":                validation.ObjectValidator,
	"OperatorGroup":         validation.OperatorGroupValidator,
}

func checkBundle(dir string, r *report) {
	// What `opm alpha bundle validate` does: layout and annotations, kinds, CSV, CRDs.
	logger := logrus.NewEntry(logrus.StandardLogger())
	opm := bundle.NewImageValidator(nil, logger)
	name := "Bundle/" + filepath.Base(dir)
	opmErrors(r, name, opm.ValidateBundleFormat(dir))

	checkFiles(filepath.Join(dir, "manifests"), r)

	b, err := manifests.GetBundleFromDir(dir)
	if err != nil {
		var aggregate utilerrors.Aggregate
		if errors.As(err, &aggregate) {
			for _, e := range aggregate.Errors() {
				r.err(name, e.Error())
			}
		} else {
			r.err(name, err.Error())
		}
	}
	if b == nil || b.CSV == nil {
		return
	}
	// Not before: without a CSV it panics.
	opmErrors(r, name, opm.ValidateBundleContent(filepath.Join(dir, "manifests")))

	run := func(subject string, object any) {
		for _, v := range bundleValidators {
			for _, result := range v.Validate(object) {
				for _, e := range result.Errors {
					r.err(subject, text(e))
				}
				for _, w := range result.Warnings {
					r.warn(subject, text(w))
				}
			}
		}
	}
	for _, crd := range b.V1CRDs {
		run("CustomResourceDefinition/"+crd.Name, crd)
	}
	for _, crd := range b.V1beta1CRDs {
		run("CustomResourceDefinition/"+crd.Name, crd)
	}
	run("ClusterServiceVersion/"+b.CSV.Name, b.CSV)
	for _, o := range b.Objects {
		run(o.GetKind()+"/"+o.GetName(), o)
	}
	run("Bundle/"+b.Name, b)

	checkV1(b, r)
}

// text leaves out the level, which begins our line, and a value that is the subject or a whole object.
func text(e verrors.Error) string {
	detail := e.Detail
	if gvk, ok := e.BadValue.(schema.GroupVersionKind); ok && !strings.Contains(detail, gvk.String()) {
		detail += ": " + gvk.String()
	}
	if e.Field != "" {
		return e.Field + ": " + detail
	}
	return detail
}

func opmErrors(r *report, subject string, err error) {
	var list bundle.ValidationError
	if errors.As(err, &list) {
		for _, e := range list.Errors {
			var ours verrors.Error
			if errors.As(e, &ours) {
				r.err(subject, text(ours))
			} else {
				r.err(subject, e.Error())
			}
		}
	} else if err != nil {
		r.err(subject, err.Error())
	}
}

// checkFiles sees what the loaders pass over: they read the first document of a file only, and drop the fields of
// a CSV that they do not know.
func checkFiles(dir string, r *report) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return // opm has said so
	}
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			continue
		}
		decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
		documents := 0
		for {
			var document json.RawMessage
			if err := decoder.Decode(&document); err != nil {
				if !errors.Is(err, io.EOF) {
					r.err("File/"+f.Name(), err.Error())
				}
				break
			}
			if len(document) == 0 || string(document) == "null" {
				continue
			}
			documents++
			var meta struct{ Kind string }
			_ = json.Unmarshal(document, &meta)
			if meta.Kind != v1alpha1.ClusterServiceVersionKind {
				continue
			}
			if err := yaml.UnmarshalStrict(data, &v1alpha1.ClusterServiceVersion{}); err != nil {
				r.err("File/"+f.Name(), err.Error())
			}
		}
		if documents != 1 {
			r.err("File/"+f.Name(), fmt.Sprintf("%d documents; OLM reads one of a file", documents))
		}
	}
}

// checkV1 has the rules of OLM v1 (operator-controller v1.11), whose validators are internal to it, and what the API
// server would refuse of a webhook.
func checkV1(b *manifests.Bundle, r *report) {
	spec := b.CSV.Spec
	subject := "ClusterServiceVersion/" + b.CSV.Name

	if b.Package == "" {
		r.err("Bundle/"+b.Name, "no package name in metadata/annotations.yaml")
	}
	if !slices.ContainsFunc(spec.InstallModes, func(m v1alpha1.InstallMode) bool {
		return m.Type == v1alpha1.InstallModeTypeAllNamespaces && m.Supported
	}) {
		r.err(subject, "OLM v1: the install mode AllNamespaces must be supported")
	}
	for _, crd := range spec.CustomResourceDefinitions.Required {
		r.err(subject, fmt.Sprintf("OLM v1: required CRD %q: dependencies are refused", crd.Name))
	}
	for _, d := range b.Dependencies {
		r.err("Bundle/"+b.Name, fmt.Sprintf("OLM v1: dependency of type %q: dependencies are refused", d.Type))
	}

	deployments := map[string]bool{}
	for _, d := range spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		if deployments[d.Name] {
			r.err(subject, fmt.Sprintf("OLM v1: two deployments %q", d.Name))
		}
		deployments[d.Name] = true
		for _, e := range k8svalidation.IsDNS1123Subdomain(d.Name) {
			r.err(subject, fmt.Sprintf("OLM v1: deployment %q: %s", d.Name, e))
		}
	}

	webhooks := map[string]bool{}
	for _, w := range spec.WebhookDefinitions {
		at := fmt.Sprintf("OLM v1: webhook %q: ", w.GenerateName)
		key := string(w.Type) + "/" + w.GenerateName
		if webhooks[key] {
			r.err(subject, at+"two of this name and type")
		}
		webhooks[key] = true
		for _, e := range k8svalidation.IsDNS1123Subdomain(w.GenerateName) {
			r.err(subject, at+e)
		}
		if !deployments[w.DeploymentName] {
			r.err(subject, at+fmt.Sprintf("no deployment %q", w.DeploymentName))
		}
		if w.Type == v1alpha1.ConversionWebhook {
			continue // numo has one version of each CRD
		}
		if w.Type != v1alpha1.ValidatingAdmissionWebhook && w.Type != v1alpha1.MutatingAdmissionWebhook {
			r.err(subject, at+fmt.Sprintf("type %q", w.Type))
		}
		if w.SideEffects == nil || *w.SideEffects != admissionv1.SideEffectClassNone && *w.SideEffects != admissionv1.SideEffectClassNoneOnDryRun {
			r.err(subject, at+"sideEffects must be None or NoneOnDryRun")
		}
		if len(w.AdmissionReviewVersions) == 0 || len(w.Rules) == 0 {
			r.err(subject, at+"admissionReviewVersions and rules must not be empty")
		}
		for _, rule := range w.Rules {
			for _, group := range rule.APIGroups {
				if group == "*" || group == "olm.operatorframework.io" || group == "operators.coreos.com" {
					r.err(subject, at+fmt.Sprintf("rules for the API group %q are refused", group))
				}
				if group == admissionv1.GroupName && slices.ContainsFunc(rule.Resources, func(resource string) bool {
					resource = strings.ToLower(resource)
					return resource == "*" || strings.HasPrefix(resource, "validatingwebhookconfiguration") || strings.HasPrefix(resource, "mutatingwebhookconfiguration")
				}) {
					r.err(subject, at+"rules for webhook configurations are refused")
				}
			}
		}
	}
}

// ---- catalog

func checkCatalog(dir string, r *report) {
	subject := "Catalog/" + filepath.Base(dir)
	cfg, err := declcfg.LoadFS(context.Background(), os.DirFS(dir))
	if err != nil {
		r.err(subject, err.Error())
		return
	}
	for _, o := range cfg.Others {
		r.warn(o.Schema+"/"+o.Name, "OLM does not know this schema and passes over it")
	}
	if len(cfg.Packages) == 0 {
		r.err(subject, "no olm.package")
	}
	model, err := declcfg.ConvertToModel(*cfg) // validates the model too
	if err != nil {
		r.err(subject, err.Error())
		return
	}
	// What opm passes over: fields it does not know, and edges to bundles that are not there.
	if err := declcfg.WalkMetasFS(context.Background(), os.DirFS(dir), func(path string, meta *declcfg.Meta, err error) error {
		if err != nil {
			return err
		}
		var into any
		switch meta.Schema {
		case declcfg.SchemaPackage:
			into = &declcfg.Package{}
		case declcfg.SchemaChannel:
			into = &declcfg.Channel{}
		case declcfg.SchemaBundle:
			into = &declcfg.Bundle{}
		case declcfg.SchemaDeprecation:
			into = &declcfg.Deprecation{}
		default:
			return nil
		}
		if err := yaml.UnmarshalStrict(meta.Blob, into); err != nil {
			r.err(meta.Schema+"/"+meta.Name, path+": "+err.Error())
		}
		return nil
	}, declcfg.WithConcurrency(1)); err != nil {
		r.err(subject, err.Error())
	}
	names := map[string]bool{}
	for _, p := range model {
		for _, c := range p.Channels {
			for _, b := range c.Bundles {
				names[b.Name] = true
				if b.Replaces != "" && c.Bundles[b.Replaces] == nil {
					r.warn("olm.channel/"+c.Name, fmt.Sprintf("%s replaces %s, which the channel does not have", b.Name, b.Replaces))
				}
				for _, prop := range b.Properties {
					switch prop.Type {
					case property.TypePackageRequired, property.TypeGVKRequired, property.TypeConstraint:
						r.err("olm.bundle/"+b.Name, fmt.Sprintf("OLM v1: property %q: dependencies are refused", prop.Type))
					}
				}
			}
		}
	}
	if len(r.errors) > 0 {
		return
	}
	sorted := make([]string, 0, len(names))
	for name := range names {
		sorted = append(sorted, name)
	}
	sort.Strings(sorted)
	for _, name := range sorted {
		fmt.Println(name)
	}
}

// ---- render

// renderBundle is `opm render DIR` without action.Render, which would bring sqlite and a registry client.
func renderBundle(dir, ref, level string, w io.Writer) error {
	input, err := registry.NewImageInput(image.SimpleReference(ref), dir)
	if err != nil {
		return err
	}
	b := input.Bundle
	objects, properties, err := registry.ObjectsAndPropertiesFromBundle(b)
	if err != nil {
		return err
	}
	// Objects last, as opm has them.
	sort.SliceStable(properties, func(i, j int) bool {
		return properties[i].Type != property.TypeBundleObject && properties[j].Type == property.TypeBundleObject
	})
	csv, err := b.ClusterServiceVersion()
	if err != nil {
		return err
	}
	related, err := relatedImages(csv, ref)
	if err != nil {
		return err
	}
	csvJSON := ""
	for _, o := range b.Objects {
		if o.GetKind() == v1alpha1.ClusterServiceVersionKind {
			data, err := json.Marshal(o)
			if err != nil {
				return err
			}
			csvJSON = string(data)
		}
	}
	cfg := declcfg.DeclarativeConfig{Bundles: []declcfg.Bundle{{
		Schema:        declcfg.SchemaBundle,
		Name:          b.Name,
		Package:       b.Package,
		Image:         ref,
		Properties:    properties,
		RelatedImages: related,
		Objects:       objects,
		CsvJSON:       csvJSON,
	}}}
	steps, err := migrations.NewMigrations(level)
	if err != nil {
		return err
	}
	if err := steps.Migrate(&cfg); err != nil {
		return err
	}
	return declcfg.WriteYAML(cfg, w)
}

// relatedImages are those of the CSV, then the bundle's own, then those of its deployments that the CSV does not list.
func relatedImages(csv *registry.ClusterServiceVersion, ref string) ([]declcfg.RelatedImage, error) {
	var spec struct {
		RelatedImages []declcfg.RelatedImage `json:"relatedImages"`
	}
	if err := json.Unmarshal(csv.Spec, &spec); err != nil {
		return nil, err
	}
	images := spec.RelatedImages
	operands, err := csv.GetOperatorImages()
	if err != nil {
		return nil, err
	}
	if ref != "" {
		operands[ref] = struct{}{}
	}
	for image := range operands {
		if !slices.ContainsFunc(images, func(r declcfg.RelatedImage) bool { return r.Image == image }) {
			images = append(images, declcfg.RelatedImage{Image: image})
		}
	}
	sort.Slice(images, func(i, j int) bool { return images[i].Image < images[j].Image })
	return images, nil
}
