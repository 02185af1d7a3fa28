{#- The options form's one module: its files one after the other. Inside the Hub's page, which lets a plugin add no
    static files, and as a file of the service's. -#}
{% include "backendai/shared.js" %}
{% include "backendai/launcher/fields.js" %}
{% include "backendai/launcher/resources.js" %}
{% include "backendai/launcher/rows.js" %}
{% include "backendai/launcher/problems.js" %}
{% include "backendai/launcher/review.js" %}
{% include "backendai/launcher/order.js" %}
{% include "backendai/launcher/steps.js" %}
