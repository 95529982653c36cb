"""In the place of tensorrt.plugin, TensorRT's quickly deployable plugins, which are not there: importing it says so."""

raise ImportError(
    "camshaft.tensorrt has no quickly deployable plugins (tensorrt.plugin): write the operator as a function of NumPy "
    "arrays (@camshaft.plugin), or as an IPluginV3 in Python; docs/plugins.md has both",
    name="tensorrt.plugin",
)
