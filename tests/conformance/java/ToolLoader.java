import java.net.URL;
import java.net.URLClassLoader;

/** Loads Kafka's tools anew: they count in static fields, as a process that runs once may. The rest is shared. */
final class ToolLoader extends URLClassLoader {
    ToolLoader(URL[] toolJars, ClassLoader shared) {
        super(toolJars, shared);
    }
}
